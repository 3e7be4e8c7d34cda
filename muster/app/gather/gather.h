#pragma once
// muster train in processes that another launcher has started (Slurm, an MPI, torchrun, or whoever
// sets torchrun's variables): rank 0 launches the job, the others are its agents. They meet as
// torch's programs do, at MASTER_ADDR and MASTER_PORT.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/app/launch/agents.h"
#include "muster/base/exit_code.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/started_by.h"

namespace muster::app {

// Rank 0's. One thread.
class Gathering {
 public:
  virtual ~Gathering() = default;
  // Blocks until all are there, since gather() for as long as the job allows, or as
  // MUSTER_JOIN_TIMEOUT says. The gathering outlives what it gives. An Error names who did not
  // come, and how they are started, or cannot take part.
  virtual Result<AgentWorkers> wait_for_all(Duration join_timeout) = 0;
  // All end with this exit code, also those that have yet to come: it waits for them a while.
  virtual void conclude(ExitCode code) = 0;
};

// From here on the others can come, who have to be given the same `job` and be of the same muster.
// `worker_program`: muster-worker, which knows torch's store.
Result<std::unique_ptr<Gathering>> gather(const cluster::StartedBy& by,
                                          const cluster::GivenJob& job, const Path& worker_program,
                                          Processes& processes, const Logger& log);

// Any other rank's, with the `command` of a worker (muster worker --from-input). Rank 0 is waited
// for as long as the job allows, where it can be read here; see above. Blocks until the job is
// over: its exit code. kInvalid: it has another job than rank 0, or is another muster.
Result<ExitCode> attend_gathering(const cluster::StartedBy& by, const cluster::GivenJob& job,
                                  std::optional<Duration> join_timeout, const Path& worker_program,
                                  const std::vector<std::string>& command, Processes& processes,
                                  const Logger& log);

}  // namespace muster::app
