#include <fmt/format.h>

#include "muster/base/number.h"
#include "muster/net/network.h"

namespace muster::net {

std::string to_string(const Address& address) {
  const bool ipv6 = address.host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", address.host, address.port)
              : fmt::format("{}:{}", address.host, address.port);
}

Result<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon != std::string_view::npos) {
    auto host = text.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
      host = host.substr(1, host.size() - 2);
    const auto port = number_from<std::uint16_t>(text.substr(colon + 1));
    if (!host.empty() && port) return Address{std::string(host), *port};
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("[net/address] \"{}\" is no address; expected host:port, with a port of "
                          "0 to 65535",
                          text));
}

}  // namespace muster::net
