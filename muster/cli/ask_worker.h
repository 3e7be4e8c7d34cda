#pragma once
// Questions about a job that only muster-worker can answer, for it links libtorch.

#include <chrono>
#include <string>
#include <vector>

#include "muster/cli/context.h"
#include "muster/cli/machine.h"
#include "muster/job/load.h"

namespace muster::cli {

// What `program QUESTION RESOLVED_JOB MORE…` prints, asked with the job as it would be trained.
// Blocks for seconds; kTimeout after `limit`, with what to do. However this process ends, nothing
// is left behind: the job is handed over in memory, and the worker does not outlive it.
Result<std::string> ask_worker(const Path& program, const std::string& question,
                               const job::Job& job, const std::vector<std::string>& more,
                               std::chrono::milliseconds limit, Context& context);

// The same of a worker that waits after its first line (Machine::output_in_two).
Result<std::string> ask_worker(const Path& program, const std::string& question,
                               const job::Job& job, const std::vector<std::string>& more,
                               std::chrono::milliseconds limit, const GoesOn& goes_on,
                               Context& context);

}  // namespace muster::cli
