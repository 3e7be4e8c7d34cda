#pragma once
// Where a run is, for a person. Pure.

#include <optional>
#include <string>
#include <vector>

#include "muster/app/debug/debug_report.h"
#include "muster/observe/run_list.h"

namespace muster::cli {

struct RunStatus {
  observe::RunInfo run;
  std::optional<app::DebugReport> workers;  // as they answered just now; none: it does not run
  std::string no_answer;                    // why there is none though it runs
};

// Who is behind the others, or does not answer, a line each. Empty: nobody.
std::vector<std::string> late_workers(const app::DebugReport& report);

// Until the last step, at the rate of the last one told. Nothing: it is over, or endless.
std::optional<Duration> time_left(const observe::RunInfo& run);

// "1,234 samples/s, 100 ms a step, 1:00 left"; empty: no step was told.
std::string rate_text_of(const observe::RunInfo& run);

std::string status_text(const RunStatus& status);

}  // namespace muster::cli
