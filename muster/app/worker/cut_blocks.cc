#include "muster/app/worker/cut_blocks.h"

#include <fmt/format.h>

#include "muster/job/placement.h"

namespace muster::app {
namespace {

std::vector<std::string> block_names_of(const models::Model& model) {
  std::vector<std::string> names;
  names.reserve(model.blocks().size());
  for (const models::NamedBlock& block : model.blocks()) names.push_back(block.name);
  return names;
}

}  // namespace

bool cut_by_cost(const job::StrategySpec& strategy) {
  return strategy.blocks.empty() && strategy.placement.empty();
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
  if (cut_by_cost(strategy)) return layout::partition_by_cost(costs, stage_of);
  MUSTER_ASSIGN(const auto counts, job::blocks_by_hand(strategy, block_names_of(whole)));
  auto partition = layout::partition_by_hand(counts, {blocks, chunks});
  if (partition) return partition;
  return with_context(std::move(partition).error(), "[job] strategy.blocks");
}

}  // namespace muster::app
