#pragma once
// For fuzz targets: bytes that a peer has written before it closed, as a stream reads them, without
// a network or a thread.

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace muster::fuzz {

// More than a socket takes at once says nothing that less does not say.
inline constexpr std::size_t kMostInput = std::size_t{64} << 10;

// A socket at whose other end `bytes` were written, and which was closed then. The caller closes
// it.
inline int socket_with(std::span<const std::uint8_t> bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const auto written = ::send(ends[1], bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (written != static_cast<ssize_t>(bytes.size())) std::abort();
  ::close(ends[1]);
  return ends[0];
}

// What must hold, in every build.
inline void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace muster::fuzz
