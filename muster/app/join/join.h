#pragma once
// One more worker on this host, for a job whose launcher runs elsewhere.

#include <cstdint>
#include <functional>
#include <string_view>

#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/net/network.h"

namespace muster::app {

struct JoinOptions {
  net::Address coordinator;  // of the job's launcher
  std::string credentials;   // as its launcher wrote them
  Path scratch;              // where a folder may be made that goes with the worker
  Path worker_program;       // muster-worker
  std::int32_t lanes = 0;    // threads that compute; 0: one for each core
  Duration join_timeout = std::chrono::seconds(60);
  std::function<void(std::string_view line)> tell;  // a person, on the loop's thread
};

// Blocks until the worker has ended: the training is over, or does without it. SIGINT and SIGTERM
// let it leave with the step; a second one kills it. An Error: it never came to be a worker.
Result<ExitCode> join_job(const JoinOptions& options, Processes& processes, Files& files,
                          const Logger& log);

}  // namespace muster::app
