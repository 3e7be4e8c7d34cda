#pragma once
// Where every worker of a job is, and who holds it up: what `muster debug RUN` shows, and what is
// kept in debug.json when a job fails.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/app/debug/worker_dump.h"
#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/cluster/launcher.h"

namespace muster::app {

struct DebugWorker {
  std::int32_t worker = 0;
  std::string host;
  int pid = 0;
  std::int64_t step = 0;  // as the last heartbeat said
  std::string phase;
  std::string operation = {};  // likewise, or what it computed: "forward of slice 3"
  std::string state = {};      // of the process where it did not answer: "stopped (SIGSTOP)"
  std::optional<WorkerDump> dump = {};  // none: it did not answer
  bool waits_to_begin = false;          // for others to join: it is not asked anything yet
  Rank rank = kNoRank;                  // as it says, or the launcher of one that does not answer
  bool starting = false;                // it holds nobody up yet
};

// "pid 7 on node3"; without what is not known of one that has not been heard of yet.
std::string place_of(const DebugWorker& worker);

// The occasion of a report of a run that may be well.
inline constexpr std::string_view kAskedFor = "asked for";

struct DebugReport {
  std::string time;      // UTC
  std::string occasion;  // kAskedFor, "the job failed"
  std::vector<DebugWorker> workers;
};

// From what the launcher collected.
DebugReport make_debug_report(const std::vector<cluster::WorkerState>& states, WallTime now,
                              std::string occasion);

// What follows from it, a line each: who missed which operation, who waits for whom and who of them
// for nobody, who does not answer. Empty: no operation is held up. Of a report that was asked for
// only what takes longer than most steps do: in a run that is well each operation takes a while.
std::vector<std::string> conclusions(const DebugReport& report);

// For a person: conclusions, a line a worker, and the stacks of those who hold the others up, or
// of all.
std::string to_text(const DebugReport& report, bool all_stacks);

std::string to_json(const DebugReport& report);
Result<DebugReport> debug_report_from_json(std::string_view text);

}  // namespace muster::app
