#pragma once
// What the planner needs to know of a job's model: counted from its shapes, and found by running
// its blocks.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

struct ProfileOptions {
  std::vector<std::int64_t> micro_batches = {};  // samples of passes, besides the job's
  // That this machine will run, by the job's workers and their lanes: they share its memory.
  std::int32_t passes_at_once = 1;
  // Told what was counted, before anything of the model is run, or allocated; false: that is all.
  std::function<bool(const std::string& counted)> goes_on = {};
  // Bytes that this process may take. Where running a block takes more, the rest is counted.
  std::uint64_t memory = std::numeric_limits<std::uint64_t>::max();
  // Gives back to the system what the process has freed: what is left is counted as libtorch's own.
  std::function<void()> give_back = [] {};
};

// plan::ModelProfile as JSON, a line. Opens the data, whose first samples the blocks are given.
Result<std::string> profile_training(Files& files, const job::JobSpec& job,
                                     const ProfileOptions& options, const ComponentsPtr& own);

}  // namespace muster::app
