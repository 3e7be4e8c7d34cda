// Any payload of a control frame: what is taken for a message is written and read back the same.

#include "muster/cluster/messages.h"

#include "tests/fuzz/connection_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace muster;
  const auto message = cluster::decode({reinterpret_cast<const std::byte*>(data), size});
  if (!message) {
    fuzz::require(!message.error().message.empty());
    return 0;
  }
  const auto bytes = cluster::encode(*message);
  const auto again = cluster::decode(bytes);
  fuzz::require(again.has_value() && again->index() == message->index());
  fuzz::require(cluster::encode(*again) == bytes);
  return 0;
}
