#pragma once
// The launcher's side of a job: makes the run folder, starts the workers, shows and records what
// they report, and tells how it ended. Runs without libtorch, so it is there in milliseconds.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/app/launch/agents.h"
#include "muster/app/launch/hosts.h"
#include "muster/app/launch/mlflow_tracking.h"
#include "muster/base/clock.h"
#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/job/load.h"
#include "muster/observe/sinks/console/console.h"

namespace muster::app {

struct LaunchOptions {
  Path worker_program = {};                 // muster-worker
  std::optional<Path> resume = {};          // the run folder to go on with
  std::string program = {};                 // how to call muster; empty: no word on what to do next
  std::string resume_command = {};          // the same command line with --resume
  std::string extend_command = {};          // the same without its --set of the length
  std::string calmer_command = {};          // the same without its learning rate
  CarriedAlong carried = {};                // to other hosts; its variables to all workers
  std::optional<AgentWorkers> agents = {};  // instead of hosts: all workers but the first
  std::string started_by = {};              // the launcher of this process; empty: none
  Path folder = {};                         // from which relative paths go, absolute
  observe::ConsoleOptions console = {};
  MlflowContext mlflow = {};  // where the job sends what it measures there
};

// Whether this build and this machine have what the job needs. Changes nothing.
Status check_startable(Files& files, const job::Job& job);

// For a dry run: whether launch() could keep its run where run_folder says, or go on in `resume`,
// where nobody else may be training. Leaves nothing behind.
Status check_run_folder(Files& files, const job::Job& job, const std::optional<Path>& resume,
                        const Logger& log);

// For a dry run: whether all hosts that the job would be started on can take part.
Status check_hosts(const job::JobSpec& job, const LaunchOptions& options, const Logger& log);

// After check_startable(). Blocks until all workers are gone. What goes wrong from then on is shown
// and recorded, and the exit code says which kind it was. An Error: there is no run.
Result<ExitCode> launch(const job::Job& job, const LaunchOptions& options, const Logger& log);

// The newest run of the job that has a checkpoint, for --resume, and newer ones that have none.
struct NewestRun {
  Path folder;
  std::vector<Path> passed_over;
};
Result<NewestRun> newest_run(Files& files, const job::JobSpec& job);

}  // namespace muster::app
