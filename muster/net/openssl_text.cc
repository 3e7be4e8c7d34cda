#include "muster/net/openssl_text.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include "muster/base/result.h"

namespace muster::net {

std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  if (code == 0) return "no reason given";
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "error " + std::to_string(code);
}

Error openssl_failed(std::string_view where, std::string_view what) {
  return fail(ErrorCode::kInternal,
              fmt::format("[{}] {} failed: {}", where, what, take_openssl_error()));
}

}  // namespace muster::net
