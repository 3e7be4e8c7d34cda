#include <fmt/format.h>

#include <charconv>

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
    const auto digits = text.substr(colon + 1);
    std::uint16_t port = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), port);
    if (!host.empty() && !digits.empty() && error == std::errc() && end == digits.end())
      return Address{std::string(host), port};
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("[net/address] \"{}\" is no address; expected host:port, with a port of "
                          "0 to 65535",
                          text));
}

}  // namespace muster::net
