#pragma once
// Events: the turns a run takes.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/observe/metric.h"
#include "muster/observe/span.h"

namespace muster::observe {

struct RunStarted {
  std::string name;
  std::string
      headline;  // "muster 0.1.0 · libtorch 2.11.0 · cpu · 2 workers × 1 lane · 78.0 k parameters"
  std::string libtorch;    // its version
  std::string run_folder;  // empty: none
  std::int64_t workers = 1;
  std::int64_t slices = 1;
  std::int64_t parameters = 0;
  Step first_step{0};              // > 0 when resumed
  std::int64_t samples_seen = 0;   // > 0 when resumed
  std::int64_t total_steps = 0;    // 0: not known
  std::int64_t total_samples = 0;  // 0: not known
  double epochs = 0;               // 0: not known
  std::int64_t epoch_size = 0;     // samples; 0: not known
  std::int64_t batch = 0;          // samples of a full step; 0: not known
  friend bool operator==(const RunStarted&, const RunStarted&) = default;
};

// A step that every rank's part is in and that was applied: for the ledger.
struct StepCommitted {
  Step step{0};
  Generation generation{0};
  std::int64_t epoch = 0;
  std::int64_t begin = 0;  // positions in the epoch that it consumed
  std::int64_t end = 0;
  std::uint64_t roll = 0;  // its roll call, see data/roll_call.h
  friend bool operator==(const StepCommitted&, const StepCommitted&) = default;
};

// The training goes on from an earlier step than the last: those after it are taken again. For the
// ledger, and in a line for people.
struct WentBack {
  Step to{0};
  Generation generation{0};  // in which it does
  Step from{0};              // the last step that somebody of it knows to be committed
  std::string how = {};      // "generation 2 of 3 workers stands after 1.2 s: all go back to …";
                             // empty: a notice has told it
  std::int64_t rollbacks = 0;  // with this one, so that two of one generation are told apart
  friend bool operator==(const WentBack&, const WentBack&) = default;
};

struct CheckpointWritten {
  Step step{0};
  std::string path;
  std::uint64_t bytes = 0;
  Duration stall{0};  // that training stood still for it
  Duration took{0};   // until it was published
  friend bool operator==(const CheckpointWritten&, const CheckpointWritten&) = default;
};

enum class Severity : std::uint8_t { kNote, kWarning, kError };

// What a notice tells of a recovery: one that goes as it should is a single line for whoever
// watches (sinks/console/recoveries.h), and all of its notices in the run's files.
struct RecoveryPart {
  enum class Turn : std::uint8_t {
    kLost,      // a worker, and the others go on without it in the next generation
    kStarted,   // another one in its place
    kStands,    // a generation; `workers`: those who are new in it
    kEntered,   // newcomers have the state
    kWentBack,  // all did, to an earlier step than the last
  };
  Turn turn = Turn::kLost;
  std::vector<std::int32_t> workers = {};  // by number
  std::string brief = {};                  // of kLost, kStarted: what the one line has of it
  friend bool operator==(const RecoveryPart&, const RecoveryPart&) = default;
};

// A line for people.
struct Notice {
  Severity severity = Severity::kNote;
  std::string text = {};
  std::optional<RecoveryPart> recovery = {};
  friend bool operator==(const Notice&, const Notice&) = default;
};

// A part of the critical path (critical_path.h).
struct PathShare {
  std::string what;          // "backward", "waiting for data", "all_reduce"
  std::int32_t worker = -1;  // -1: an operation of all
  Duration time{0};
  friend bool operator==(const PathShare&, const PathShare&) = default;
};
struct PathSummary {
  std::int64_t steps = 0;  // that it is of
  std::vector<PathShare> shares = {};
  friend bool operator==(const PathSummary&, const PathSummary&) = default;
};

struct RunEnded {
  Step step{0};
  bool completed = true;  // false: stopped or failed; then `reason` says why
  std::string reason;
  Duration took{0};
  std::vector<Metric> results;     // final numbers: the last evaluation's, the best one's
  PathSummary critical_path = {};  // of a training that was traced
  friend bool operator==(const RunEnded&, const RunEnded&) = default;
};

using Record = std::variant<RunStarted, Metrics, Span, StepCommitted, WentBack, CheckpointWritten,
                            Notice, RunEnded>;

}  // namespace muster::observe
