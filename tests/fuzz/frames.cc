// Any bytes after an accepted handshake: the frame parser of a connection. A first byte that is odd
// has the rest read as a list of headers in which only some fields are wrong, for which it makes
// the checksum right: random bytes would hardly ever get past it.

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "muster/net/socket_connection.h"
#include "tests/fuzz/connection_input.h"

namespace muster::fuzz {
namespace {

constexpr std::uint64_t kJob = 7;
constexpr std::uint64_t kLongest = std::uint64_t{1} << 16;

class Judge final : public net::Receiver {
 public:
  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    require(!closed_ && !in_frame_);
    require(header.job == kJob && header.length <= kLongest);
    require(header.generation >= Generation{2} && header.sender >= kNoRank);
    in_frame_ = true;
    payload_.assign(header.length, std::byte{0});
    return std::optional(std::span(payload_));
  }
  void on_frame(const net::FrameHeader& header) override {
    require(in_frame_ && header.length == payload_.size());
    in_frame_ = false;
  }
  void on_close(const Error& why) override {
    require(!closed_ && !why.message.empty());
    closed_ = true;
  }
  bool is_closed() const { return closed_; }

 private:
  std::vector<std::byte> payload_;
  bool in_frame_ = false;
  bool closed_ = false;
};

// Six bytes a header, then its payload: which fields are wrong, kind, generation, sender, length.
std::vector<std::uint8_t> frames_of(std::span<const std::uint8_t> recipe) {
  std::vector<std::uint8_t> bytes;
  while (recipe.size() >= 6 && bytes.size() < kMostInput / 2) {
    net::FrameHeader header;
    header.job = (recipe[0] & 1) != 0 ? kJob + 1 : kJob;
    header.kind = recipe[1];
    header.generation = Generation{recipe[2]};
    header.sender = Rank{static_cast<std::int8_t>(recipe[3])};
    header.length = recipe[4] + 256U * recipe[5];
    if ((recipe[0] & 2) != 0) header.length <<= 40;
    recipe = recipe.subspan(6);
    const auto head = net::encode_header(header);
    for (const std::byte byte : head) bytes.push_back(static_cast<std::uint8_t>(byte));
    const std::size_t payload = std::min<std::uint64_t>(header.length, recipe.size());
    bytes.insert(bytes.end(), recipe.begin(),
                 recipe.begin() + static_cast<std::ptrdiff_t>(payload));
    recipe = recipe.subspan(payload);
  }
  bytes.resize(std::min(bytes.size(), kMostInput));
  return bytes;
}

void play(std::span<const std::uint8_t> bytes) {
  const auto context = std::make_shared<asio::io_context>();
  const auto settings = std::make_shared<net::ConnectionSettings>(
      net::ConnectionSettings{context, nullptr, net::FramePolicy{kJob, Generation{2}, kLongest},
                              std::make_shared<net::Counters>(), create_null_logger()});
  const int fd = socket_with(bytes);
  asio::ip::tcp::socket socket(*context);
  socket.assign(asio::ip::tcp::v4(), fd);
  const auto connection = std::make_shared<net::SocketConnection>(
      settings, std::move(socket), net::create_plain_stream(fd), net::Address{"peer", 1});
  const auto judge = std::make_shared<Judge>();
  connection->start(judge);
  context->run();  // until nothing is left to wait for: the peer has closed
  require(judge->is_closed());
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster::fuzz;
  const std::span<const std::uint8_t> input(data, std::min(size, kMostInput));
  if (input.empty()) return 0;
  if (input[0] % 2 == 0)
    play(input.subspan(1));
  else
    play(frames_of(input.subspan(1)));
  return 0;
}
