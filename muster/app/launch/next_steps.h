#pragma once
// What a person may do once a run is over. Pure.

#include <optional>
#include <string>
#include <string_view>

#include "muster/base/exit_code.h"
#include "muster/base/files.h"
#include "muster/base/ids.h"
#include "muster/job/spec.h"

namespace muster::app {

struct RunOutcome {
  ExitCode code;
  bool saved;           // a checkpoint is there
  bool ruined;          // it could not go on with any, for none is whole
  bool patient = true;  // it did not end for want of progress (evaluation.early_stop_patience)
  Step step{0};         // the last one, done now or before
  std::optional<Step> best = {};  // whose checkpoint is the run's best, unless it is the newest
  Path run;
  std::string program;         // how to call muster
  std::string resume_command;  // the command line of the run with --resume
  std::string extend_command;  // the same without what it set of the length
  std::string calmer_command;  // the same without its learning rate
  std::string launcher = {};   // that has started all processes of the run; empty: muster itself
};

// Lines without the last newline; empty where the error itself says what to do.
std::string next_steps(const RunOutcome& outcome, const job::JobSpec& job);

}  // namespace muster::app
