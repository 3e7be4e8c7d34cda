#include "muster/base/exception_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <new>
#include <system_error>

namespace muster {

Error error_from_exception(std::string_view operation, const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[{}] not enough memory; raise the limit of memory (ulimit -v, that of "
                            "the container or batch job), or let less run on this host",
                            operation));
  const auto* system = dynamic_cast<const std::system_error*>(&exception);
  // Asio has a category of its own for what errno says.
  if (system != nullptr && system->code().value() == EAGAIN)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[{}] no further thread can be had: {}; {}", operation,
                            system->code().message(), kRaiseProcessLimit));
  return fail(ErrorCode::kInternal, fmt::format("[{}] {}", operation, exception.what()));
}

}  // namespace muster
