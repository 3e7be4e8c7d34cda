#include "muster/base/system_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace muster {
namespace {

std::string_view advice(int number) {
  switch (number) {
    case ENOSPC:
      return "; free some space or choose another disk";
    case EDQUOT:
      return "; free some space or raise the quota";
    case EACCES:
    case EPERM:
      return "; allow this user to use it or choose another place";
    case EROFS:
      return "; choose a place that can be written";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of open files (ulimit -n)";
    case EFBIG:
      return "; raise the limit of a file's size (ulimit -f)";
    default:
      return "";
  }
}

}  // namespace

ErrorCode code_of_errno(int number) noexcept {
  switch (number) {
    case ENOENT:
    case ESRCH:
      return ErrorCode::kNotFound;
    case EEXIST:
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
      return ErrorCode::kInvalid;
    default:
      return ErrorCode::kUnavailable;
  }
}

Error system_error(std::string_view operation, std::string_view subject, int number) {
  return {code_of_errno(number),
          fmt::format("[{}] {}: {}{}", operation, subject, std::generic_category().message(number),
                      advice(number))};
}

}  // namespace muster
