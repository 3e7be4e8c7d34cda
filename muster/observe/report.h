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
  RunEnded ended;
  Environment environment;
  std::string resolved_job;  // YAML
};

std::string render_report(const ReportInput& input);  // pure

// A run's files, as far as they are there.
Result<ReportInput> read_run(Files& files, const RunFolder& folder);

// Reads a run's files and writes its report.html.
Status write_report(Files& files, const RunFolder& folder);

}  // namespace muster::observe
