#pragma once
// strategy.placement: from patterns for names of blocks to how many of them each chunk of a
// pipeline has. Names are known to a job of one of muster's models, and to a worker of any. Pure,
// thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::job {

// Of muster's own models, in order, as they build them (models/create.h); of others none.
std::vector<std::string> block_names(const ModelSpec& model);

// How many a pipeline deals out; of a program's own model that is not known here.
std::optional<std::int64_t> block_count(const ModelSpec& model);

// For people: "embedding", "embedding, layer0", "embedding … layer7".
std::string names_text(std::span<const std::string> names);

struct BlocksPlaced {
  std::vector<std::int64_t> sizes;  // blocks of each chunk; none where something is wrong:
  std::string wrong;                // what, and what was expected
  std::string help;                 // what to do
};

// What strategy.placement means for the blocks of these names, with the stages, the schedule and
// the chunks of `strategy`, of which there are no more than names.
BlocksPlaced place_blocks(const StrategySpec& strategy, const std::vector<std::string>& names);

// Blocks of each chunk as strategy.blocks says, or strategy.placement for blocks of these names;
// none where neither does. kInvalid where that does not fit.
Result<std::vector<std::int32_t>> blocks_by_hand(const StrategySpec& strategy,
                                                 const std::vector<std::string>& names);

// Schedule and chunks of a stage with which the model passes the stages as strategy.placement says;
// none where there is no such schedule, or the placement is wrong by itself.
struct PassingSchedule {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  std::int64_t chunks_per_stage = 1;
};
std::optional<PassingSchedule> schedule_for_placement(const StrategySpec& strategy,
                                                      const std::vector<std::string>& names);

}  // namespace muster::job
