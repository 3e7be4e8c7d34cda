#pragma once
// What a process says when it ends. Schedulers (Kubeflow's ExitCode policy, Slurm's requeue) retry
// on 128 + signal, so these numbers are part of the interface.

#include "muster/base/error.h"

namespace muster {

enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,         // training failed
  kUsage = 2,          // command line or job file
  kEnvironment = 3,    // port, device, disk or data missing or damaged
  kNumeric = 4,        // NaN, diverged
  kInterrupted = 130,  // Ctrl-C, checkpoint written
  kTerminated = 143,   // SIGTERM, checkpoint written
};

constexpr ExitCode exit_code(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kUnsupported:
      return ExitCode::kUsage;
    case ErrorCode::kUnavailable:
    case ErrorCode::kNotFound:
    case ErrorCode::kCorrupt:
      return ExitCode::kEnvironment;
    case ErrorCode::kNumeric:
      return ExitCode::kNumeric;
    default:
      return ExitCode::kFailed;
  }
}

// What a process of muster's that ended with `exit` says of its error; kUnavailable for one that is
// none of ours.
constexpr ErrorCode error_code(int exit) noexcept {
  switch (static_cast<ExitCode>(exit)) {
    case ExitCode::kFailed:
      return ErrorCode::kInternal;
    case ExitCode::kUsage:
      return ErrorCode::kInvalid;
    case ExitCode::kNumeric:
      return ErrorCode::kNumeric;
    default:
      return ErrorCode::kUnavailable;
  }
}

}  // namespace muster
