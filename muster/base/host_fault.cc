#include "muster/base/host_fault.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

namespace muster {

// An error is its code and what it says: of what the environment lacks only the text knows more, be
// it the system's or libtorch's.
bool may_be_of_one_host(const Error& error) {
  if (error.code != ErrorCode::kUnavailable || error.peer != kNoRank) return false;
  static const std::array<std::string, 6> kSigns{
      "not enough memory",
      "out of memory",
      "can't allocate memory",
      "cannot start loading thread",
      std::generic_category().message(ENOMEM),
      std::generic_category().message(EIO),
  };
  return std::ranges::any_of(kSigns, [&](const std::string& sign) {
    return error.message.find(sign) != std::string::npos;
  });
}

}  // namespace muster
