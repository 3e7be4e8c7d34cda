// Any bytes from whoever reaches a port: the handshake, of a listener (a first byte that is even)
// and of who connects. Nobody is let in who does not have the job's key, and none of these has.

#include <memory>

#include "muster/net/stream.h"
#include "tests/fuzz/connection_input.h"

namespace muster::fuzz {
namespace {

void play(net::TlsContext& tls, net::Side side, std::span<const std::uint8_t> bytes) {
  const int fd = socket_with(bytes);
  {
    const auto stream = tls.create_stream(fd, side);
    require(stream.has_value());
    net::Io state = net::Io::kWantRead;
    for (int call = 0; call < 1000 && state == net::Io::kWantRead; ++call)
      state = (*stream)->handshake().state;
    require(state == net::Io::kClosed || state == net::Io::kFailed);
  }
  ::close(fd);
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  static const auto credentials = net::create_credentials(system_clock().wall()).value();
  static const auto tls =
      net::create_tls_context(credentials, std::size_t{16} << 10, system_clock()).value();
  const std::span<const std::uint8_t> input(data, std::min(size, fuzz::kMostInput));
  if (input.empty()) return 0;
  const net::Side side = input[0] % 2 == 0 ? net::Side::kServer : net::Side::kClient;
  fuzz::play(*tls, side, input.subspan(1));
  return 0;
}
