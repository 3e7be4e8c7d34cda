#include "muster/app/worker/block_costs.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "muster/app/worker/build_model.h"
#include "muster/base/check.h"
#include "muster/models/flop_counter.h"
#include "muster/models/memory_meter.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/examples.h"
#include "muster/parallel/gradient_hook.h"

namespace muster::app {
namespace {

constexpr int kRounds = 3;  // of which the fastest counts

parallel::Examples first_pass(const data::StepBatch& batch, const job::JobSpec& job) {
  const parallel::Examples slice = parallel::examples_of(batch.slices.front());
  const std::int64_t most = job.training.micro_batch_size;
  return parallel::narrow(slice, 0, most > 0 ? std::min(most, slice.samples()) : slice.samples());
}

// A block among others: of a model of its own, or of one that is cut over ranks.
struct Placed {
  models::Model& model;
  std::size_t index = 0;
};

// `input` wants a gradient where something before the block does.
at::Tensor run_forward(const Placed& block, const at::Tensor& input, const job::JobSpec& job) {
  std::vector<at::Tensor> statistics;
  models::PassContext context = pass_to_measure(job, statistics);
  return block.model.forward_block(block.index, handed_on(input), context);
}

// Where backward begins: the last block's is the loss.
at::Tensor end_of(const Placed& block, const at::Tensor& output, const at::Tensor& targets,
                  bool last) {
  return last ? block.model.loss_sum(output, targets).sum : output;
}

void backward(const at::Tensor& end) {
  if (end.requires_grad()) torch::autograd::backward({end}, {at::ones_like(end)});
}

// One by one, as lanes hand them on.
void drop_gradients(const models::Model& model) {
  for (const models::Parameter& parameter : model.parameters())
    parallel::when_gradient_is_found(parameter.tensor, [](const at::Tensor&) {});
}

// `look` sees each block with its input and returns its output.
using Look = std::function<at::Tensor(const Placed& block, const at::Tensor& input)>;
Status each_block(const models::Model& whole, at::Tensor input, std::uint64_t seed,
                  const Look& look) {
  return models::catch_torch("worker/block_costs", [&] {
    for (std::size_t b = 0; b < whole.blocks().size(); ++b) {
      const auto block = whole.part({b});
      block->initialize(seed);
      input = handed_on(look({*block}, input));
    }
  });
}

// The same of the model itself: one that is spread over ranks has no parts.
Status each_block_here(models::Model& part, at::Tensor input, const Look& look) {
  return models::catch_torch("worker/block_costs", [&] {
    for (std::size_t b = 0; b < part.blocks().size(); ++b)
      input = handed_on(look({part, b}, input));
  });
}

// What forward takes to memory and keeps there.
class ActivationMeter {
 public:
  ActivationMeter(const parallel::Examples& examples, const job::JobSpec& job) : job_(job) {
    found_.samples = examples.samples();
  }
  at::Tensor weigh(const Placed& block, const at::Tensor& input) {
    const models::MemoryMeter meter;
    at::Tensor output = run_forward(block, input, job_);
    found_.bytes += meter.held();
    return output;
  }
  const Activations& found() const noexcept { return found_; }

 private:
  const job::JobSpec& job_;
  Activations found_;
};

// Passes of all blocks, one by one.
class PassMeter {
 public:
  PassMeter(const parallel::Examples& examples, const job::JobSpec& job, RankNotes* notes = nullptr)
      : examples_(examples), job_(job), notes_(notes) {
    profile_.samples = examples.samples();
  }

  at::Tensor measure(const Placed& block, const at::Tensor& input, bool last) {
    plan::BlockPass pass{.forward = Duration::max(), .backward = Duration::max()};
    drop_gradients(block.model);
    at::Tensor output;
    for (int round = 0; round < kRounds; ++round) {
      output.reset();
      const models::MemoryMeter meter;
      const TimePoint began = system_clock().now();
      output = run_forward(block, input, job_);
      pass.forward_messages = told();
      const at::Tensor end = end_of(block, output, examples_.targets, last);
      const TimePoint turned = system_clock().now();
      if (last) profile_.loss_messages = told();
      pass.activation_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, meter.held()));
      backward(end);
      pass.backward_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(
          0, meter.peak() - static_cast<std::int64_t>(pass.activation_bytes)));
      pass.forward = std::min(pass.forward, turned - began);
      pass.backward = std::min(pass.backward, system_clock().now() - turned);
      pass.backward_messages = told();
    }
    pass.output_bytes = output.nbytes();
    profile_.blocks.push_back(std::move(pass));
    return output;
  }

  plan::PassProfile take() { return std::move(profile_); }

 private:
  std::vector<plan::RankMessage> told() const {
    return notes_ ? notes_->take() : std::vector<plan::RankMessage>();
  }

  const parallel::Examples& examples_;
  const job::JobSpec& job_;
  RankNotes* const notes_;
  plan::PassProfile profile_;
};

}  // namespace

Result<std::vector<Duration>> measure_blocks(const models::Model& whole,
                                             const data::StepBatch& batch,
                                             const job::JobSpec& job) {
  std::vector<Duration> costs;
  const parallel::Examples examples = first_pass(batch, job);
  const auto time = [&](const Placed& block, const at::Tensor& input) {
    const bool last = costs.size() + 1 == whole.blocks().size();
    Duration best = Duration::max();
    at::Tensor output;
    for (int round = 0; round < kRounds; ++round) {
      const TimePoint began = system_clock().now();
      output = run_forward(block, input, job);
      backward(end_of(block, output, examples.targets, last));
      best = std::min(best, system_clock().now() - began);
    }
    costs.push_back(best);
    return output;
  };
  MUSTER_TRY(each_block(whole, examples.inputs, job.seed, time));
  return costs;
}

Result<double> count_flops(models::Model& whole, const data::StepBatch& batch,
                           const job::JobSpec& job) {
  const auto some = std::ranges::find_if(
      batch.slices, [](const data::SliceBatch& slice) { return slice.samples > 0; });
  MUSTER_CHECK(some != batch.slices.end(), "a sample to count with");
  job::JobSpec plain = job;
  plain.training.precision = job::Precision::kF32;  // under autocast operators would count twice
  const parallel::Examples slice = parallel::examples_of(*some);
  // Some blocks, as batch norms of vectors, want two.
  const auto examples = parallel::narrow(slice, 0, std::min<std::int64_t>(2, slice.samples()));
  double flops = 0;
  const auto count = [&](const Placed& block, const at::Tensor& input) {
    const models::FlopCounter counter;
    at::Tensor output = run_forward(block, input, plain);
    const bool last = block.index + 1 == whole.blocks().size();
    backward(end_of(block, output, examples.targets, last));
    flops += counter.counted();
    for (const models::Parameter& parameter : whole.parameters())
      at::Tensor(parameter.tensor).mutable_grad().reset();
    return output;
  };
  MUSTER_TRY(each_block_here(whole, examples.inputs, count));
  return flops / static_cast<double>(examples.samples());
}

Result<Activations> measure_activations(const models::Model& whole, const data::StepBatch& batch,
                                        const job::JobSpec& job) {
  const parallel::Examples examples = first_pass(batch, job);
  ActivationMeter meter(examples, job);
  MUSTER_TRY(each_block(
      whole, examples.inputs, job.seed,
      [&](const Placed& block, const at::Tensor& input) { return meter.weigh(block, input); }));
  return meter.found();
}

Result<Activations> measure_own_activations(models::Model& part, const data::StepBatch& batch,
                                            const job::JobSpec& job) {
  const parallel::Examples examples = first_pass(batch, job);
  ActivationMeter meter(examples, job);
  MUSTER_TRY(each_block_here(
      part, examples.inputs,
      [&](const Placed& block, const at::Tensor& input) { return meter.weigh(block, input); }));
  return meter.found();
}

Result<std::vector<plan::BlockPass>> measure_passes(const models::Model& whole,
                                                    const data::StepBatch& batch,
                                                    const job::JobSpec& job, const PassRoom& room) {
  const parallel::Examples examples = first_pass(batch, job);
  PassMeter meter(examples, job);
  std::size_t seen = 0;
  const auto look = [&](const Placed& block, const at::Tensor& input) {
    return meter.measure(block, input, ++seen == whole.blocks().size());
  };
  MUSTER_TRY(each_block(whole, examples.inputs, job.seed, look));
  std::vector<plan::BlockPass> blocks = meter.take().blocks;
  if (bytes_to_time(whole, blocks, room.at_once) > room.bytes) return blocks;
  std::vector<std::size_t> all(blocks.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto model = whole.part(all);
  model->initialize(job.seed);
  MUSTER_TRY(time_passes(*model, examples, job, room.at_once, blocks));
  return blocks;
}

Result<plan::PassProfile> measure_cut_passes(models::Model& part, RankNotes& told,
                                             const data::StepBatch& batch, const job::JobSpec& job,
                                             const PassRoom& room) {
  const parallel::Examples examples = first_pass(batch, job);
  PassMeter meter(examples, job, &told);
  const auto look = [&](const Placed& block, const at::Tensor& input) {
    return meter.measure(block, input, block.index + 1 == part.blocks().size());
  };
  MUSTER_TRY(each_block_here(part, examples.inputs, look));
  plan::PassProfile pass = meter.take();
  if (bytes_to_time(part, pass.blocks, room.at_once) <= room.bytes)
    MUSTER_TRY(time_passes(part, examples, job, room.at_once, pass.blocks));
  (void)told.take();  // the same again
  return pass;
}

}  // namespace muster::app
