#include "muster/job/listen_address.h"

#include <fmt/format.h>

#include <cstdint>

#include "muster/base/number.h"

namespace muster::job {

bool is_port(std::string_view text) { return number_from<std::uint16_t>(text).has_value(); }

std::string wrong_number(std::string_view host) {
  // No name of a host consists of digits alone.
  if (host.empty() || host.find_first_not_of("0123456789.") != host.npos) return {};
  constexpr int kParts = 4;
  int parts = 0;
  for (std::string_view rest = host;; rest.remove_prefix(rest.find('.') + 1)) {
    const auto part = rest.substr(0, rest.find('.'));
    if (!number_from<std::uint8_t>(part)) return fmt::format("`{}` is no number of 0 to 255", part);
    if (++parts > kParts || part.size() == rest.size()) break;
  }
  if (parts == kParts) return {};
  return fmt::format("`{}` is no address, which has {} numbers of 0 to 255", host, kParts);
}

}  // namespace muster::job
