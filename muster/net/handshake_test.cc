// Handshakes that break off, which says nothing about who is there.
#include <gtest/gtest.h>

#include <future>

#include "muster/net/testing/bare_door.h"
#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using testing::BareDoor;
using testing::Pair;
using testing::soon;

// A launcher that dies, a proxy that has nobody behind it.
TEST(Handshake, ThatBreaksIsNoSignOfAnotherJob) {
  for (const bool resets : {false, true}) {
    Pair pair{NetworkOptions{}};
    BareDoor door;
    std::promise<Result<std::shared_ptr<Connection>>> outcome;
    pair.client_network->connect(door.address(), soon(),
                                 [&](auto result) { outcome.set_value(std::move(result)); });
    {
      auto socket = door.accept();
      if (resets) socket.set_option(asio::socket_base::linger(true, 0));
    }
    const auto result = outcome.get_future().get();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::kPeerLost) << result.error().message;
  }
}

TEST(Handshake, ThatBreaksIsTriedAgainWhereARefusedConnectionIs) {
  Pair pair{NetworkOptions{}};
  auto door = std::make_unique<BareDoor>();
  const Address address = door->address();
  std::promise<Result<std::shared_ptr<Connection>>> outcome;
  pair.client_network->connect(
      address, soon(), [&](auto result) { outcome.set_value(std::move(result)); },
      Network::Retry::kUntilDeadline);
  static_cast<void>(door->accept());
  door.reset();  // a launcher died, and another one comes
  const auto listener = pair.server_network->listen(address, [](auto) {});
  ASSERT_TRUE(listener) << listener.error().message;
  const auto result = outcome.get_future().get();
  EXPECT_TRUE(result) << result.error().message;
}

}  // namespace
}  // namespace muster::net
