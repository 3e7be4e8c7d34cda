#pragma once
// What the end of a run could not send to its server, as a file of the run's folder
// (mlflow-unsent.jsonl): the run as it would be made there and how it ended on the first line, then
// a row of metrics on each. Values, and functions that block on the disk or the server. Times are
// kept to the microsecond.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/files.h"
#include "muster/observe/event.h"
#include "muster/observe/sinks/mlflow/mlflow.h"
#include "muster/observe/sinks/mlflow/server.h"

namespace muster::observe::mlflow {

struct Ending {
  RunState state = RunState::kFinished;
  std::vector<Path> artifacts = {};
  WallTime at = {};
};

struct Unsent {
  MlflowRun run;
  WallTime start{};
  std::optional<Ending> ending = {};  // none: the launcher did not come to it
  std::vector<Metrics> rows = {};
};

// In `file`, whose folder has the artifacts; they are named without it.
Status write_unsent(Files& files, const Path& file, const Unsent& unsent);
// MlflowRun::record and ::unsent are for the caller to say. kNotFound: nothing is left; kCorrupt:
// no such file.
Result<Unsent> read_unsent(Files& files, const Path& file);

struct Delivered {
  std::size_t numbers = 0;
  std::string page;  // of the run there, for a browser
};
// Asks the server once for each part: kUnavailable where it is away, and another time it may go
// well; else its last word. What has arrived before does not come twice, but for numbers where the
// server keeps each that it is told. A file that it does not take is told, and is no error.
Result<Delivered> deliver(const Unsent& unsent, MlflowServer& server, Files& files,
                          const std::function<void(Severity, std::string)>& tell);

}  // namespace muster::observe::mlflow
