#include "muster/net/reach.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/udp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cerrno>

#include "muster/base/pause.h"

namespace muster::net {
namespace {

using asio::error_code;

constexpr Duration kFirstPause = std::chrono::milliseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(250);
// What one try may take: a connection whose first packets are lost is better begun anew, and who
// answers nothing may be another before long.
constexpr Duration kTry = std::chrono::seconds(5);

// One connection of a client's. Each call blocks until it is done, or the deadline; after an error
// there is no other.
class Client {
 public:
  explicit Client(Deadline deadline, Clock& clock) : deadline_(deadline), clock_(clock) {}

  error_code connect(const Address& address) {
    error_code unknown;
    asio::ip::tcp::resolver resolver(context_);
    const auto found = resolver.resolve(address.host, std::to_string(address.port), unknown);
    if (unknown) return unknown;
    return run([&](auto done) {
      asio::async_connect(
          socket_, found,
          [done](const error_code& why, const asio::ip::tcp::endpoint& /*to*/) { done(why); });
    });
  }
  error_code send(const std::string& bytes) {
    return run([&](auto done) {
      asio::async_write(socket_, asio::buffer(bytes),
                        [done](const error_code& why, std::size_t) { done(why); });
    });
  }
  error_code receive(std::string& bytes) {
    return run([&](auto done) {
      asio::async_read(socket_, asio::buffer(bytes),
                       [done](const error_code& why, std::size_t) { done(why); });
    });
  }

 private:
  template <class Begin>
  error_code run(const Begin& begin) {
    error_code error = asio::error::timed_out;
    begin([&error](const error_code& why) { error = why; });
    context_.restart();
    context_.run_for(deadline_.left(clock_));
    return error;
  }

  const Deadline deadline_;
  Clock& clock_;
  asio::io_context context_;
  asio::ip::tcp::socket socket_{context_};
};

// Of one try: what went wrong, and whether somebody was there.
struct Try {
  std::string wrong;  // empty: nothing
  bool is_there = false;
};

Try try_to_ask(const Address& address, const Exchange& known, Deadline deadline, Clock& clock) {
  Client client(deadline, clock);
  error_code error = client.connect(address);
  if (error) return {.wrong = error.message(), .is_there = false};
  std::string answer(known.answer.size(), '\0');
  error = client.send(known.question);
  if (!error) error = client.receive(answer);
  if (error) return {.wrong = error.message(), .is_there = true};
  return {.wrong = answer == known.answer ? "" : "it answers something else", .is_there = true};
}

Error no_server(const Address& address, const Try& last) {
  if (!last.is_there)
    return fail(ErrorCode::kUnavailable, fmt::format("[net/connect] nobody answers at {}: {}",
                                                     to_string(address), last.wrong));
  return fail(ErrorCode::kTimeout,
              fmt::format("[net/connect] whoever accepts connections at {} is another server: {}",
                          to_string(address), last.wrong));
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

Result<bool> is_own_host(const std::string& host) {
  asio::io_context context;
  error_code error;
  asio::ip::udp::resolver resolver(context);
  const auto found = resolver.resolve(host, "0", error);
  if (error)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[net/address] {}: {}", host, error.message()));
  const auto is_elsewhere = [&](const auto& entry) {
    asio::ip::udp::socket socket(context);
    error_code why;
    socket.open(entry.endpoint().protocol(), why);
    if (!why) socket.bind(entry.endpoint(), why);
    return why.value() == EADDRNOTAVAIL;
  };
  return !std::ranges::all_of(found, is_elsewhere);
}

Status check_listen(const Address& address) {
  asio::io_context context;
  error_code error;
  asio::ip::tcp::resolver resolver(context);
  const auto found = resolver.resolve(address.host, std::to_string(address.port),
                                      asio::ip::tcp::resolver::passive, error);
  if (error) return cannot_listen(address, error.message());
  const asio::ip::tcp::endpoint where = *found.begin();
  asio::ip::tcp::acceptor acceptor(context);
  acceptor.open(where.protocol(), error);
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(where, error);
  if (!error) acceptor.listen(1, error);
  if (error) return cannot_listen(address, error.message());
  return ok();
}

Error cannot_listen(const Address& address, const std::string& reason) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("[net/listen] cannot listen at {}: {}; choose another address, or "
                          "port 0 for any free one",
                          to_string(address), reason));
}

Status await_server(const Address& address, const Exchange& known, Deadline deadline,
                    Clock& clock) {
  for (Duration wait = kFirstPause;; wait = std::min(2 * wait, kLongestPause)) {
    const auto soon = Deadline::after(clock, std::min(kTry, deadline.left(clock)));
    const Try last = try_to_ask(address, known, soon, clock);
    if (last.wrong.empty()) return ok();
    if (deadline.left(clock) <= wait) return no_server(address, last);
    pause(clock, wait);
  }
}

}  // namespace muster::net
