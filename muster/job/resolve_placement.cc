// strategy.placement: stages, schedule and blocks of each chunk follow from it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "muster/job/draft.h"
#include "muster/job/enum_names.h"
#include "muster/job/placement.h"

namespace muster::job {
namespace {

constexpr std::string_view kPlacement = "strategy.placement";

// A schedule that somebody chose may still be one of several passes, as many as are needed.
void derive_schedule(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  if (draft.given("strategy.chunks_per_stage")) return;
  const auto fitting = schedule_for_placement(strategy, block_names(draft.spec.model));
  if (!fitting || fitting->chunks_per_stage == 1) return;
  if (!draft.given("strategy.schedule")) {
    strategy.schedule = fitting->schedule;
    draft.derive("strategy.schedule", std::string(kPlacement));
  } else if (strategy.schedule != fitting->schedule) {
    return;
  }
  strategy.chunks_per_stage = fitting->chunks_per_stage;
  draft.derive("strategy.chunks_per_stage", std::string(kPlacement));
}

}  // namespace

void derive_stages(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  if (strategy.placement.empty()) return;
  if (strategy.type != StrategyType::kHybrid && !draft.given("strategy.stages")) {
    strategy.stages =
        std::ranges::max_element(strategy.placement, {}, &PlacedBlocks::stage)->stage + 1;
    draft.derive("strategy.stages", std::string(kPlacement));
  }
  derive_schedule(draft);
}

void resolve_placement(Draft& draft) {
  StrategySpec& strategy = draft.spec.strategy;
  const std::vector<std::string> names = block_names(draft.spec.model);
  const std::int64_t chunks = strategy.stages * strategy.chunks_per_stage;
  if (strategy.placement.empty() || names.empty() || chunks > std::ssize(names)) return;
  const std::string_view stages = axis_field(draft, "strategy.stages");
  const BlocksPlaced placed = place_blocks(strategy, names);
  if (!placed.wrong.empty())
    return draft.complain(
        {kPlacement, stages, "strategy.schedule", "strategy.chunks_per_stage", "model.type"},
        fmt::format("{}: {}", kPlacement, placed.wrong), placed.help);
  if (draft.given("strategy.blocks") && !strategy.blocks.empty()) {
    if (strategy.blocks == placed.sizes) return;
    return draft.complain(
        {"strategy.blocks", kPlacement},
        fmt::format("strategy.blocks {} is not what {} says, [{}]", draft.shown("strategy.blocks"),
                    kPlacement, fmt::join(placed.sizes, ", ")),
        "use one of the two");
  }
  strategy.blocks = placed.sizes;
  draft.derive("strategy.blocks", std::string(kPlacement));
}

}  // namespace muster::job
