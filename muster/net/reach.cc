#include "muster/net/reach.h"

#include <fmt/format.h>

#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>

#include "muster/base/pause.h"

namespace muster::net {
namespace {

using asio::error_code;

constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);
// What one try may take: a connection whose first packets are lost is better begun anew.
constexpr Duration kTry = std::chrono::seconds(5);

error_code try_to_connect(const Address& address, Duration most) {
  asio::io_context context;
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(address.host, std::to_string(address.port), error);
  if (error) return error;
  error = asio::error::timed_out;
  asio::ip::tcp::socket socket(context);
  asio::async_connect(socket, found,
                      [&](const error_code& why, const asio::ip::tcp::endpoint&) { error = why; });
  context.run_for(most);
  return error;
}

}  // namespace

Result<std::string> local_host_towards(const Address& peer) {
  asio::io_context context;
  error_code error;
  asio::ip::udp::resolver resolver(context);
  const auto found = resolver.resolve(peer.host, std::to_string(peer.port), error);
  asio::ip::udp::socket socket(context);
  if (!error) asio::connect(socket, found, error);  // sends nothing
  const auto here = error ? asio::ip::udp::endpoint() : socket.local_endpoint(error);
  if (!error) return here.address().to_string();
  return fail(ErrorCode::kUnavailable, fmt::format("[net/address] no way leads to {}: {}",
                                                   to_string(peer), error.message()));
}

Status await_listener(const Address& address, Deadline deadline, Clock& clock) {
  for (Duration wait = kFirstPause;; wait = std::min(2 * wait, kLongestPause)) {
    const error_code error = try_to_connect(address, std::min(kTry, deadline.left(clock)));
    if (!error) return ok();
    if (deadline.left(clock) <= wait)
      return fail(ErrorCode::kUnavailable, fmt::format("[net/connect] nobody answers at {}: {}",
                                                       to_string(address), error.message()));
    pause(clock, wait);
  }
}

}  // namespace muster::net
