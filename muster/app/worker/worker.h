#pragma once
// A worker process from its start to its end: joins the job, trains, leaves.

#include <functional>

#include "muster/app/worker/components.h"
#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/cluster/messages.h"

namespace muster::app {

struct WorkerOptions {
  Path run_folder;      // holds the resolved job; logs and checkpoints go there
  bool resume = false;  // from the newest whole checkpoint in it
  bool join = false;    // a training that goes on; its workers have the state
  bool apart = false;   // the folder stands in for the run's own, which is out of sight
  std::function<void(const cluster::Progress&)> watch = {};  // see cluster::Whereabouts; for tests
  ComponentsPtr own = no_components();                       // what the program adds to muster
};

// Blocks until the training is over. Errors have been reported to the launcher and logged.
ExitCode run_worker(const WorkerOptions& options, Logger log);

}  // namespace muster::app
