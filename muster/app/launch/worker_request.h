#pragma once
// Has a command of the job's start workers where the launcher cannot: a cluster's own tool.

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/process.h"

namespace muster::app {

struct WorkerRequestSpec {
  std::string command;                                  // for the shell
  std::map<std::string, std::string> environment = {};  // besides the numbers of workers
  Duration limit = std::chrono::minutes(1);             // after which the command is killed
  Duration gap = std::chrono::minutes(5);               // from one call to the next, at least
};

// The command runs on a thread of its own, with MUSTER_REQUEST_PRESENT and MUSTER_REQUEST_WANTED,
// one at a time. How it ended and what it wrote is logged. One caller at a time.
class WorkerRequest {
 public:
  WorkerRequest(WorkerRequestSpec spec, Clock& clock, Processes& processes, Logger log);
  // False: the last call has not ended, or was too short a while ago; ask again later.
  bool ask(std::int32_t present, std::int32_t wanted);
  bool is_under_way() const noexcept { return running_; }

 private:
  void run(const std::stop_token& stop, std::int32_t present, std::int32_t wanted);

  const WorkerRequestSpec spec_;
  Clock& clock_;
  Processes& processes_;
  const Logger log_;
  TimePoint next_ = TimePoint::min();  // not before
  std::atomic<bool> running_{false};
  std::jthread thread_;  // last: uses the others; its end kills the command
};

}  // namespace muster::app
