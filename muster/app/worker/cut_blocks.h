#pragma once
// Where a pipeline cuts the model: as the job says, or so that the dearest chunk costs least.

#include <span>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/layout/partition.h"
#include "muster/models/model.h"

namespace muster::app {

// Where the job does not say.
bool cut_by_cost(const job::StrategySpec& strategy);

// stage_of: by chunk. kInvalid where the job's numbers, or its placement, do not fit the model.
Result<layout::Partition> cut_blocks(const job::StrategySpec& strategy, const models::Model& whole,
                                     std::span<const Duration> costs,
                                     const std::vector<layout::Stage>& stage_of);

}  // namespace muster::app
