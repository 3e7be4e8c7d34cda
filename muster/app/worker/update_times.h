#pragma once
// How long it takes on one lane, while others do the same, what follows a step's passes.

#include <cstddef>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/lanes.h"

namespace muster::app {

struct UpdateTimes {
  Duration update{};
  Duration checksum{};  // of the weights
};

// Of the parameters of one block of a model that is not initialised; each lane has one of its own.
Result<UpdateTimes> time_updates(const job::JobSpec& job, const models::Model& whole,
                                 std::size_t block, parallel::LanePool& lanes);

// Without those that are another block's.
std::vector<optim::OptimizedParameter> own_parameters(const models::Model& model);

}  // namespace muster::app
