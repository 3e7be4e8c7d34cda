#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "muster/net/stream.h"

namespace muster::net {
namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(int socket) : socket_(socket) {}

  IoResult handshake() override { return {Io::kDone}; }

  IoResult read(std::span<std::byte> into) override {
    const auto count = ::recv(socket_, into.data(), into.size(), 0);
    if (count == 0) return {Io::kClosed};
    return count > 0 ? IoResult{Io::kDone, static_cast<std::size_t>(count)} : failed(Io::kWantRead);
  }

  IoResult write(std::span<const std::byte> from) override {
    const auto count = ::send(socket_, from.data(), from.size(), MSG_NOSIGNAL);
    return count >= 0 ? IoResult{Io::kDone, static_cast<std::size_t>(count)}
                      : failed(Io::kWantWrite);
  }

  IoResult flush() override { return {Io::kDone}; }
  void say_goodbye() noexcept override {}

 private:
  static IoResult failed(Io want) {
    if (errno == EAGAIN || errno == EINTR) return {want};
    return {Io::kFailed, 0, std::strerror(errno)};
  }
  int socket_;
};

}  // namespace

std::unique_ptr<ByteStream> create_plain_stream(int socket) {
  return std::make_unique<PlainStream>(socket);
}

}  // namespace muster::net
