#include "muster/app/worker/block_costs.h"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>

#include "muster/app/worker/build_model.h"
#include "muster/models/memory_meter.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/examples.h"

namespace muster::app {
namespace {

constexpr int kRounds = 5;  // of which the fastest counts

parallel::Examples first_pass(const data::StepBatch& batch, const job::JobSpec& job) {
  const parallel::Examples slice = parallel::examples_of(batch.slices.front());
  const std::int64_t most = job.training.micro_batch_size;
  return parallel::narrow(slice, 0, most > 0 ? std::min(most, slice.samples()) : slice.samples());
}

at::Tensor run_forward(models::Model& block, const at::Tensor& input, const job::JobSpec& job) {
  const at::Tensor leaf = input.detach();
  if (leaf.is_floating_point()) leaf.set_requires_grad(true);
  std::vector<at::Tensor> statistics;
  models::PassContext context{.training = true,
                              .random = RandomStream(job.seed, "costs"),
                              .statistics = &statistics,
                              .compute = compute_of(job.training)};
  return block.forward(leaf, context);
}

// `look` sees each block with its input and returns its output.
using Look = std::function<at::Tensor(models::Model& block, const at::Tensor& input)>;
Status each_block(const models::Model& whole, at::Tensor input, std::uint64_t seed,
                  const Look& look) {
  return models::catch_torch("worker/block_costs", [&] {
    for (std::size_t b = 0; b < whole.blocks().size(); ++b) {
      const auto block = whole.part({b});
      block->initialize(seed);
      input = look(*block, input).detach();
    }
  });
}

}  // namespace

Result<std::vector<Duration>> measure_blocks(const models::Model& whole,
                                             const data::StepBatch& batch,
                                             const job::JobSpec& job) {
  std::vector<Duration> costs;
  const auto time = [&](models::Model& block, const at::Tensor& input) {
    Duration best = Duration::max();
    at::Tensor output;
    for (int round = 0; round < kRounds; ++round) {
      const TimePoint began = system_clock().now();
      output = run_forward(block, input, job);
      if (output.requires_grad()) torch::autograd::backward({output}, {at::ones_like(output)});
      best = std::min(best, system_clock().now() - began);
    }
    costs.push_back(best);
    return output;
  };
  MUSTER_TRY(each_block(whole, first_pass(batch, job).inputs, job.seed, time));
  return costs;
}

Result<Activations> measure_activations(const models::Model& whole, const data::StepBatch& batch,
                                        const job::JobSpec& job) {
  const parallel::Examples examples = first_pass(batch, job);
  Activations activations{.samples = examples.samples()};
  const auto weigh = [&](models::Model& block, const at::Tensor& input) {
    const models::MemoryMeter meter;
    at::Tensor output = run_forward(block, input, job);
    activations.bytes += meter.held();
    return output;
  };
  MUSTER_TRY(each_block(whole, examples.inputs, job.seed, weigh));
  return activations;
}

Result<std::vector<plan::BlockPass>> measure_passes(const models::Model& whole,
                                                    const data::StepBatch& batch,
                                                    const job::JobSpec& job) {
  const parallel::Examples examples = first_pass(batch, job);
  std::vector<plan::BlockPass> passes;
  const auto look = [&](models::Model& block, const at::Tensor& input) {
    const bool last = passes.size() + 1 == whole.blocks().size();
    plan::BlockPass pass{.forward = Duration::max(), .backward = Duration::max()};
    at::Tensor output;
    for (int round = 0; round < kRounds; ++round) {
      output.reset();
      const models::MemoryMeter meter;
      const TimePoint began = system_clock().now();
      output = run_forward(block, input, job);
      at::Tensor end = last ? block.loss_sum(output, examples.targets).sum : output;
      const TimePoint turned = system_clock().now();
      pass.activation_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, meter.held()));
      if (end.requires_grad()) torch::autograd::backward({end}, {at::ones_like(end)});
      pass.forward = std::min(pass.forward, turned - began);
      pass.backward = std::min(pass.backward, system_clock().now() - turned);
    }
    pass.output_bytes = output.nbytes();
    passes.push_back(pass);
    return output;
  };
  MUSTER_TRY(each_block(whole, examples.inputs, job.seed, look));
  return passes;
}

}  // namespace muster::app
