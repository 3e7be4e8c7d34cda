#pragma once
// The files of a run that its records go to: they are opened before there is a step to record.

#include <memory>
#include <optional>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/result.h"
#include "muster/observe/hub.h"
#include "muster/observe/run_folder.h"

namespace muster::app {

struct RunSinks {
  std::vector<std::shared_ptr<observe::Sink>> kept;  // metrics, ledger, TensorBoard
  std::shared_ptr<observe::Sink> trace;              // of spans; null: the run is not traced
  std::optional<Path> trace_path;
};

// Behind queues, so that none holds up the training. kUnavailable names the first file that cannot
// be opened, and what to do; nothing is left of a start that an earlier one of the run had not.
// What cannot be written later `log` is warned of.
Result<RunSinks> open_run_sinks(Files& files, const observe::RunFolder& folder, bool traces,
                                const Logger& log);

}  // namespace muster::app
