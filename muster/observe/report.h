#pragma once
// report.html: one self-contained page that shows a run: loss curves, learning rate, where the time
// went, throughput, results, environment, job. Nothing is loaded from anywhere.

#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/observe/environment.h"
#include "muster/observe/event.h"
#include "muster/observe/run_folder.h"

namespace muster::observe {

struct ReportInput {
  RunStarted started;
  std::vector<Metrics> rows;  // in order of steps; training and evaluation mixed
  std::vector<CheckpointWritten> checkpoints;
  std::vector<Notice> notices;  // the last of them
  RunEnded ended;
  Environment environment;
  std::string resolved_job;           // YAML
  std::vector<std::string> left_out;  // what could not be read of the run's files, and why
};

std::string render_report(const ReportInput& input);  // pure

// The same while it trains, or did: with its state, and `more_cards` (HTML) below the loss; it
// shows what it is answered with again and again. Pure.
std::string render_live_report(const ReportInput& input, RunState state,
                               std::string_view more_cards);

// A run's files, as far as they are there and whole. kNotFound: nothing was ever recorded.
Result<ReportInput> read_run(Files& files, const RunFolder& folder);

// At any time, also while the run trains or after its launcher was killed.
Status write_report(Files& files, const ReportInput& input, const Path& page);

}  // namespace muster::observe
