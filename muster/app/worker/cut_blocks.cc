#include "muster/app/worker/cut_blocks.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "muster/app/worker/build_model.h"
#include "muster/base/clock.h"
#include "muster/models/torch_error.h"
#include "muster/parallel/examples.h"

namespace muster::app {
namespace {

constexpr int kRounds = 5;  // of which the fastest counts

// Forward and backward; returns the output.
at::Tensor run_once(models::Model& block, const at::Tensor& input, const job::JobSpec& job) {
  const at::Tensor leaf = input.detach();
  if (leaf.is_floating_point()) leaf.set_requires_grad(true);
  std::vector<at::Tensor> statistics;
  models::PassContext context{.training = true,
                              .random = RandomStream(job.seed, "costs"),
                              .statistics = &statistics,
                              .compute = compute_of(job.training)};
  const at::Tensor output = block.forward(leaf, context);
  if (output.requires_grad()) torch::autograd::backward({output}, {at::ones_like(output)});
  return output.detach();
}

Duration cost_of(models::Model& block, at::Tensor& activation, const job::JobSpec& job) {
  Duration best = Duration::max();
  at::Tensor output;
  for (int round = 0; round < kRounds; ++round) {
    const TimePoint began = system_clock().now();
    output = run_once(block, activation, job);
    best = std::min(best, system_clock().now() - began);
  }
  activation = output;
  return best;
}

}  // namespace

Result<std::vector<Duration>> measure_blocks(const models::Model& whole,
                                             const data::StepBatch& batch,
                                             const job::JobSpec& job) {
  std::vector<Duration> costs;
  MUSTER_TRY(models::catch_torch("worker/cut_blocks", [&] {
    const parallel::Examples slice = parallel::examples_of(batch.slices.front());
    const std::int64_t most = job.training.micro_batch_size;
    at::Tensor activation =
        parallel::narrow(slice, 0, most > 0 ? std::min(most, slice.samples()) : slice.samples())
            .inputs;
    for (std::size_t b = 0; b < whole.blocks().size(); ++b) {
      const auto block = whole.part({b});
      block->initialize(job.seed);
      costs.push_back(cost_of(*block, activation, job));
    }
  }));
  return costs;
}

Result<layout::Partition> cut_blocks(const job::StrategySpec& strategy, const models::Model& whole,
                                     std::span<const Duration> costs,
                                     const std::vector<layout::Stage>& stage_of) {
  const auto blocks = static_cast<std::int32_t>(whole.blocks().size());
  const auto chunks = static_cast<std::int32_t>(stage_of.size());
  if (blocks < chunks)
    return fail(ErrorCode::kInvalid,
                fmt::format("[job] the model has {} blocks for {} chunks (strategy.stages {}, "
                            "chunks_per_stage {}): use fewer, or a deeper model",
                            blocks, chunks, strategy.stages, strategy.chunks_per_stage));
  if (strategy.blocks.empty()) return layout::partition_by_cost(costs, stage_of);
  const std::vector<std::int32_t> counts(strategy.blocks.begin(), strategy.blocks.end());
  auto partition = layout::partition_by_hand(counts, {blocks, chunks});
  if (partition) return partition;
  return with_context(std::move(partition).error(), "[job] strategy.blocks");
}

Status agree_on(std::vector<Duration>& costs, comm::Communicator& communicator,
                comm::OpOptions options) {
  std::vector<std::int64_t> ticks(costs.size());
  std::ranges::transform(costs, ticks.begin(), [](Duration cost) { return cost.count(); });
  options.label = "costs of blocks";
  const comm::Broadcast told{.buffer = view_of(std::span(ticks)), .root = Rank{0}};
  MUSTER_TRY(communicator.submit(told, options).wait());
  std::ranges::transform(ticks, costs.begin(), [](std::int64_t tick) { return Duration(tick); });
  return ok();
}

}  // namespace muster::app
