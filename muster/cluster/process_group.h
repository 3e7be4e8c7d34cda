#pragma once
// Processes of this host that are started together and end together: where one fails, the others
// are ended. What ties them to each other is their own affair.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/base/result.h"

namespace muster::cluster {

struct ProcessGroupSpec {
  std::vector<ProcessSpec> processes = {};
  // From the first failure on: the others may be about to say what it has done to them.
  Duration last_words = std::chrono::seconds(5);
  Duration grace = std::chrono::seconds(5);  // from SIGTERM to SIGKILL, then
  // The same where a signal has asked for the end; none: they may take their time.
  std::optional<Duration> grace_of_signal = {};
  std::optional<Duration> at_most = {};  // all that still run then are killed
  // A descriptor whose end says that nobody wants them any more: all are killed. The caller's.
  std::optional<int> leash = {};
  // Their lines go to FOLDER/rank-N.log as well, the first process's to that of number `first`.
  struct Logs {
    Files* files = nullptr;  // the caller's
    Path folder = {};
    std::int32_t first = 0;
  };
  std::optional<Logs> logs = {};
};

// Called on one thread; must not block for long.
class ProcessGroupObserver {
 public:
  virtual ~ProcessGroupObserver() = default;
  // One whole line of what the process with this number has written, without its end.
  virtual void on_line(std::size_t /*process*/, bool /*is_error*/, std::string_view /*line*/) {}
  // SIGINT, SIGTERM, SIGHUP: all are sent SIGTERM; again: SIGKILL.
  virtual void on_stop(int /*signal*/, bool /*again*/) {}
  virtual void on_leash_end() {}
};

struct ProcessGroupEnd {
  struct Member {
    int pid = 0;
    ProcessEnd end;
    std::vector<std::string> last_lines;  // of its output, at most 20
    std::string log = {};                 // path; empty: none
  };
  std::vector<Member> members;  // in the order of the specification
  // The first that did, unless a signal came before it; none: all ended with status 0.
  std::optional<std::size_t> failed;
  std::optional<int> signal;  // the first that asked for the end, be it after a failure
};

// Blocks until all have ended; meanwhile those signals are the group's. On a thread that lives as
// long as the processes: they die with it. An Error: one could not be started, and none is left.
Result<ProcessGroupEnd> run_process_group(const ProcessGroupSpec& spec, Processes& processes,
                                          ProcessGroupObserver& observer, const Logger& log);

}  // namespace muster::cluster
