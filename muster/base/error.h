#pragma once
// What went wrong, as a value: a code that decides what happens next, a message for a person, and
// the rank that caused it where one did. Immutable; safe to copy between threads.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "muster/base/ids.h"

namespace muster {

// Few on purpose: each has one row in the recovery table and one exit code (exit_code.h).
enum class ErrorCode : std::uint8_t {
  kInvalid,      // the caller or a user's file is wrong
  kUnsupported,  // valid, but not available in this build, engine or combination
  kTimeout,      // a deadline passed
  kPeerLost,     // another process died or its connection broke
  kStale,        // belongs to an old generation
  kCancelled,    // ended on request (abort, signal)
  kNotFound,
  kCorrupt,      // bytes are not what they claim to be
  kUnavailable,  // the environment lacks something: port, disk space, device, data
  kNumeric,      // NaN, infinity, divergence
  kInternal,     // a broken invariant of muster's own
};

std::string_view to_string(ErrorCode code) noexcept;

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // "[layer/operation] what, who, and what to do next"
  Rank peer = kNoRank;  // the culprit, where there is one

  friend bool operator==(const Error&, const Error&) = default;
};

// The same error, told from one level further out: "context: message".
Error with_context(Error error, std::string_view context);

}  // namespace muster
