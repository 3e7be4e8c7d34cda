#pragma once
// What every TCP socket of a network is set to. For network.cc.

#include <fcntl.h>
#include <netinet/tcp.h>

#include <asio/ip/tcp.hpp>

namespace muster::net {

// A cut link says nothing by itself. Who waits to receive asks after kIdle of silence, and again;
// after about 10 s without an answer the connection has ended. (A process that is stopped still
// answers: its kernel does.)
inline constexpr int kIdleSeconds = 2;
inline constexpr int kQuestions = 4;

inline void ask_when_idle(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kQuestions);
}

// Children that are started later must not inherit the job's connections.
inline void keep_from_children(int fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

inline asio::error_code prepare(asio::ip::tcp::socket& socket) {
  keep_from_children(socket.native_handle());
  ask_when_idle(socket.native_handle());
  asio::error_code error;
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  if (!error) socket.non_blocking(true, error);
  return error;
}

}  // namespace muster::net
