#include "muster/app/worker/cut_blocks.h"

#include <fmt/format.h>

namespace muster::app {

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

}  // namespace muster::app
