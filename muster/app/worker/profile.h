#pragma once
// What the planner needs to know of a job's model, found by running its blocks.

#include <string>
#include <vector>

#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

// plan::ModelProfile as JSON. `micro_batches`: samples of the passes to measure, besides the job's.
// Opens the data, whose first samples the blocks are given.
Result<std::string> profile_training(Files& files, const job::JobSpec& job,
                                     const std::vector<std::int64_t>& micro_batches,
                                     const ComponentsPtr& own);

}  // namespace muster::app
