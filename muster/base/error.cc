#include "muster/base/error.h"

#include <fmt/format.h>

#include "muster/base/check.h"

namespace muster {

std::string_view to_string(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalid:
      return "invalid";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kTimeout:
      return "timeout";
    case ErrorCode::kPeerLost:
      return "peer lost";
    case ErrorCode::kStale:
      return "stale";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kNumeric:
      return "numeric";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

Error with_context(Error error, std::string_view context) {
  error.message = fmt::format("{}: {}", context, error.message);
  return error;
}

void throw_logic_fault(const char* file, int line, const char* condition,
                       const std::string& detail) {
  throw LogicFault(fmt::format("{}:{}: expected {}: {}", file, line, condition, detail));
}

}  // namespace muster
