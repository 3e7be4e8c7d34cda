#pragma once
// Has a command of the job's start workers where the launcher cannot: a cluster's own tool.

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/launcher.h"

namespace muster::app {

struct WorkerRequestSpec {
  std::string command;                                  // for the shell
  std::map<std::string, std::string> environment = {};  // besides the numbers of workers
  Duration limit = std::chrono::minutes(1);             // after which the command is killed
  Duration gap = std::chrono::minutes(5);               // from one call to the next, at least
  // So long those that it was to start, and that have not come, count as coming.
  Duration patience = std::chrono::minutes(30);
};

// The command runs on a thread of its own, with MUSTER_REQUEST_MORE, MUSTER_REQUEST_PRESENT and
// MUSTER_REQUEST_WANTED, one at a time. How it ended and what it wrote is logged; one that fails
// has started nobody. One caller at a time.
class WorkerRequest {
 public:
  WorkerRequest(WorkerRequestSpec spec, Clock& clock, Processes& processes, Logger log);
  // False: the last call has not ended, or was too short a while ago, or enough are coming; ask
  // again later.
  bool ask(const cluster::WorkersWanted& workers);
  bool is_under_way() const noexcept { return running_; }

 private:
  struct Call {
    TimePoint at;
    std::int64_t missing = 0;  // of those that it was to start: so many have not come
  };
  std::int64_t coming(std::int64_t arrived);
  void run(const std::stop_token& stop, const cluster::WorkersWanted& workers, std::int64_t more);

  const WorkerRequestSpec spec_;
  Clock& clock_;
  Processes& processes_;
  const Logger log_;
  TimePoint next_ = TimePoint::min();  // not before
  std::deque<Call> calls_;             // whose workers still count, the oldest first
  std::int64_t arrived_ = 0;           // when it was asked last
  std::atomic<bool> failed_{false};    // the last call has, and calls_ still counts it
  std::atomic<bool> running_{false};
  std::jthread thread_;  // last: uses the others; its end kills the command
};

}  // namespace muster::app
