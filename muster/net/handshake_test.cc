// Handshakes that break off, which says nothing about who is there.
#include <gtest/gtest.h>

#include <future>

#include "muster/net/testing/bare_door.h"
#include "muster/net/testing/recorder.h"
#include "muster/net/testing/relay.h"

namespace muster::net {
namespace {

using testing::BareDoor;
using testing::Pair;
using testing::pattern;
using testing::Recorder;
using testing::Relay;
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

// As a listener lets go of the oldest of too many, or of one whose time is over.
TEST(Handshake, IsNotDoneBeforeTheOtherSideIs) {
  const Pair pair{NetworkOptions{}};
  const Relay way(pair.listener->address(), 1);
  const auto result = connect_and_wait(*pair.client_network, way.address(), soon());
  EXPECT_EQ(way.cuts(), 1);
  ASSERT_FALSE(result) << "its own part was done, and nobody has it on the other side";
  EXPECT_EQ(result.error().code, ErrorCode::kPeerLost) << result.error().message;
}

TEST(Handshake, ThatTheOtherSideGivesUpIsTriedAgain) {
  const Pair pair{NetworkOptions{}};
  std::promise<std::shared_ptr<Connection>> accepted;
  const auto listener =
      pair.server_network
          ->listen({"127.0.0.1", 0},
                   [&](std::shared_ptr<Connection> from) { accepted.set_value(std::move(from)); })
          .value();
  const Relay way(listener->address(), 2);
  const auto result =
      connect_and_wait(*pair.client_network, way.address(), soon(), Network::Retry::kIfBroken);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(way.cuts(), 2);
  const auto at_client = std::make_shared<Recorder>();
  (*result)->start(at_client);
  const auto at_server = accepted.get_future().get();
  at_server->send(FrameHeader{.kind = kFirstCommFrame}, pattern(1000, 1));
  EXPECT_EQ(at_client->wait_frames(1).size(), 1U) << "and nothing that is no frame comes before";
}

// One that listened there is gone: nobody waits for another.
TEST(Handshake, ThatBreaksIsNotTriedAgainWhereNobodyListensAnyMore) {
  const Pair pair{NetworkOptions{}};
  auto door = std::make_unique<BareDoor>();
  std::promise<Result<std::shared_ptr<Connection>>> outcome;
  pair.client_network->connect(
      door->address(), soon(), [&](auto result) { outcome.set_value(std::move(result)); },
      Network::Retry::kIfBroken);
  static_cast<void>(door->accept());
  door.reset();
  const auto result = outcome.get_future().get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << result.error().message;
}

}  // namespace
}  // namespace muster::net
