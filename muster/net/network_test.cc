#include "muster/net/network.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <asio/ip/tcp.hpp>
#include <condition_variable>
#include <future>
#include <mutex>

#include "muster/net/testing/recorder.h"

namespace muster::net {
namespace {

using testing::Pair;
using testing::pattern;
using testing::Recorder;
using testing::soon;

FrameHeader frame(std::uint32_t tag, Generation generation = Generation{1}) {
  FrameHeader header;
  header.kind = kFirstCommFrame;
  header.generation = generation;
  header.sender = Rank{0};
  header.tag = tag;
  return header;
}

class NetworkBothWays : public ::testing::TestWithParam<bool> {
 protected:
  NetworkOptions options() const {
    NetworkOptions options;
    options.insecure_plaintext = GetParam();
    options.handshake_timeout = muster::testing::kHang;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Transport, NetworkBothWays, ::testing::Bool(),
                         [](const auto& transport) { return transport.param ? "Plain" : "Tls"; });

TEST_P(NetworkBothWays, FramesOfAllSizesArriveInOrder) {
  Pair pair(options());
  const std::vector<std::size_t> sizes{0,      1,      55,        16'327,   16'328,
                                       16'384, 16'385, 1'000'003, 40u << 20};
  for (std::size_t i = 0; i < sizes.size(); ++i)
    pair.client->send(frame(static_cast<std::uint32_t>(i)), pattern(sizes[i], i));
  const auto got = pair.at_server->wait_frames(sizes.size());
  ASSERT_EQ(got.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(got[i].header.tag, i);
    EXPECT_TRUE(got[i].payload == pattern(sizes[i], i)) << sizes[i];
  }
}

TEST_P(NetworkBothWays, PiecesAreJoinedAndReleasedOnce) {
  Pair pair(options());
  const auto one = pattern(100'000, 1);
  const auto two = pattern(3, 2);
  std::mutex mutex;
  std::condition_variable changed;
  int done = 0;
  pair.client->send(frame(9), {one, {}, two, one}, [&](const Status& status) {
    const std::lock_guard lock(mutex);
    done += status ? 1 : 100;
    changed.notify_all();
  });
  const auto got = pair.at_server->wait_frames(1);
  ASSERT_EQ(got.size(), 1u);
  auto whole = one;
  whole.insert(whole.end(), two.begin(), two.end());
  whole.insert(whole.end(), one.begin(), one.end());
  EXPECT_TRUE(got[0].payload == whole);
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_until(lock, soon().at(), [&] { return done > 0; }));
  EXPECT_EQ(done, 1);
}

TEST_P(NetworkBothWays, BothDirectionsAtOnce) {
  Pair pair(options());
  constexpr std::size_t kFrames = 200;
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    pair.client->send(frame(i), pattern(50'000, i));
    pair.server->send(frame(i), pattern(60'000, i + 1));
  }
  const auto at_server = pair.at_server->wait_frames(kFrames);
  const auto at_client = pair.at_client->wait_frames(kFrames);
  ASSERT_EQ(at_server.size(), kFrames);
  ASSERT_EQ(at_client.size(), kFrames);
  for (std::uint32_t i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(at_server[i].payload == pattern(50'000, i));
    ASSERT_TRUE(at_client[i].payload == pattern(60'000, i + 1));
  }
}

TEST_P(NetworkBothWays, AReceiverMayAskForTime) {
  Pair pair(options());
  pair.at_server->pause_next();
  pair.client->send(frame(1), pattern(70'000, 1));
  pair.client->send(frame(2), pattern(5, 2));
  ASSERT_TRUE(pair.at_server->wait_paused());
  EXPECT_TRUE(pair.at_server->frames().empty());
  pair.at_server->resume(*pair.server);
  const auto got = pair.at_server->wait_frames(2);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_TRUE(got[0].payload == pattern(70'000, 1));
  EXPECT_TRUE(got[1].payload == pattern(5, 2));
}

TEST_P(NetworkBothWays, FramesOfAnOldGenerationAreSkipped) {
  Pair pair(options());
  pair.server->refuse_before(Generation{5});
  ASSERT_TRUE(run_and_wait(
      *pair.server_loop, [] {}, soon()));  // it has taken effect
  pair.client->send(frame(1, Generation{4}), pattern(100'000, 1));
  pair.client->send(frame(2, Generation{5}), pattern(10, 2));
  const auto got = pair.at_server->wait_frames(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].header.tag, 2u);
  EXPECT_EQ(pair.server_network->counters().stale, 1u);
  EXPECT_EQ(pair.server_log->last_raw().size(), 1u);
}

TEST_P(NetworkBothWays, AnOversizedFrameEndsTheConnection) {
  auto limited = options();
  limited.max_frame = 1000;
  Pair pair(limited);
  pair.client->send(frame(1), pattern(1001, 1));
  const auto why = pair.at_server->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kInvalid);
  EXPECT_EQ(pair.server_network->counters().oversized, 1u);
  EXPECT_EQ(pair.server_log->last_raw().size(), 1u);
  EXPECT_TRUE(pair.at_client->wait_closed());
}

TEST_P(NetworkBothWays, ClosingIsSeenByThePeerAndFailsWhatWaits) {
  Pair pair(options());
  pair.at_server->pause_next();
  const auto large = pattern(32u << 20, 1);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<ErrorCode> outcomes;
  for (int i = 0; i < 3; ++i)
    pair.client->send(frame(1), {large}, [&](const Status& status) {
      const std::lock_guard lock(mutex);
      outcomes.push_back(status ? ErrorCode::kInternal : status.error().code);
      changed.notify_all();
    });
  ASSERT_TRUE(pair.at_server->wait_paused());
  pair.client->close(fail(ErrorCode::kCancelled, "enough"));
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_until(lock, soon().at(), [&] { return outcomes.size() == 3; }));
    EXPECT_EQ(outcomes, std::vector(3, ErrorCode::kCancelled));
  }
  EXPECT_EQ(pair.at_client->wait_closed()->message, "enough");
  pair.at_server->resume(*pair.server);
  const auto why = pair.at_server->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kPeerLost);
}

TEST_P(NetworkBothWays, FinishSendsEverythingFirst) {
  Pair pair(options());
  for (std::uint32_t i = 0; i < 20; ++i) pair.client->send(frame(i), pattern(300'000, i));
  pair.client->finish(soon());
  EXPECT_EQ(pair.at_server->wait_frames(20).size(), 20u);
  EXPECT_TRUE(pair.at_server->wait_closed());
  EXPECT_EQ(pair.at_client->wait_closed()->code, ErrorCode::kCancelled);
}

TEST_P(NetworkBothWays, WhoFinishesMayLetGoAtOnce) {
  Pair pair(options());
  std::promise<void> goes_on;
  pair.client_loop->post([held = goes_on.get_future().share()] { held.wait(); });
  pair.client->send(frame(7), pattern(300'000, 7));
  pair.client->finish(soon());
  pair.client.reset();  // before the loop has looked at either
  goes_on.set_value();
  const auto got = pair.at_server->wait_frames(1);
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].payload == pattern(300'000, 7));
  EXPECT_TRUE(pair.at_server->wait_closed());
  EXPECT_EQ(pair.at_client->wait_closed()->code, ErrorCode::kCancelled);
}

// A peer that takes nothing keeps what was dropped no longer than was said.
TEST_P(NetworkBothWays, WhatFinishesGoesAtItsDeadline) {
  Pair pair(options());
  pair.at_server->pause_next();
  pair.client->send(frame(7), pattern(32u << 20, 7));
  pair.client->send(frame(8), pattern(32u << 20, 8));
  ASSERT_TRUE(pair.at_server->wait_paused());
  const std::weak_ptr<Connection> dropped = pair.client;
  pair.client->finish(Deadline::after(system_clock(), std::chrono::milliseconds(50)));
  pair.client.reset();
  EXPECT_EQ(pair.at_client->wait_closed()->code, ErrorCode::kTimeout);
  ASSERT_TRUE(run_and_wait(
      *pair.client_loop, [] {}, soon()));  // the task that closed it is over
  EXPECT_TRUE(dropped.expired());
}

// Not even where the peer has sent what nobody will read here: for such bytes the kernel answers a
// close with a reset, and drops what it still has for the peer.
TEST_P(NetworkBothWays, FinishLosesNothingOfWhatThePeerHasNotTakenYet) {
  const auto unread = pattern(32u << 20, 3);
  Pair pair(options());
  pair.at_server->pause_next();
  pair.at_client->pause_next();
  pair.server->send(frame(3), {unread}, [](const Status&) {});
  ASSERT_TRUE(pair.at_client->wait_paused());
  constexpr std::size_t kFrames = 24;
  for (std::uint32_t i = 0; i < kFrames; ++i)
    pair.client->send(frame(10 + i), pattern(1u << 20, 4));
  ASSERT_TRUE(pair.at_server->wait_paused());
  pair.client->finish(soon());
  pair.at_server->resume(*pair.server);
  EXPECT_EQ(pair.at_server->wait_frames(kFrames).size(), kFrames);
  EXPECT_TRUE(pair.at_server->wait_closed());
  EXPECT_EQ(pair.at_client->wait_closed()->code, ErrorCode::kCancelled);
}

// A peer that closes while it is sent to answers with a reset; why it did stands before that.
TEST_P(NetworkBothWays, WhatThePeerSaidLastIsReadThoughWritesFail) {
  Pair pair(options());
  pair.at_server->pause_next();
  pair.at_client->pause_next();
  pair.client->send(frame(1), pattern(10, 1));
  pair.client->send(frame(2), pattern(10, 2));
  const auto large = pattern(32u << 20, 3);
  std::promise<bool> sent;
  pair.server->send(frame(3), {large}, [&](const Status& status) { sent.set_value(bool(status)); });
  ASSERT_TRUE(pair.at_server->wait_paused());
  ASSERT_TRUE(pair.at_client->wait_paused());
  pair.client->close(fail(ErrorCode::kCancelled, "enough"));
  EXPECT_FALSE(sent.get_future().get()) << "the peer has closed before it read";
  pair.server->send(frame(4), pattern(10, 4));  // comes too late, and does not end the reading
  pair.at_server->resume(*pair.server);
  EXPECT_EQ(pair.at_server->wait_frames(2).size(), 2u);
  const auto why = pair.at_server->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kPeerLost);
}

TEST_P(NetworkBothWays, DroppingTheOwnerCloses) {
  Pair pair(options());
  pair.client.reset();
  const auto why = pair.at_server->wait_closed();
  ASSERT_TRUE(why);
  EXPECT_EQ(why->code, ErrorCode::kPeerLost);
}

TEST_P(NetworkBothWays, NobodyThereIsSaidAtOnceOrAfterTheDeadline) {
  Pair pair(options());
  const Address nobody{"127.0.0.1", 1};
  const auto at_once = connect_and_wait(*pair.client_network, nobody, soon());
  ASSERT_FALSE(at_once);
  EXPECT_EQ(at_once.error().code, ErrorCode::kUnavailable);
  const auto late = connect_and_wait(
      *pair.client_network, nobody, Deadline::after(system_clock(), std::chrono::milliseconds(100)),
      Network::Retry::kUntilDeadline);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_NE(late.error().message.find("127.0.0.1:1"), std::string::npos);
}

// Linux drops what comes for a listener that has no room, as a firewall does.
TEST(Network, SilenceIsLaidToAFirewall) {
  Pair pair{NetworkOptions{}};
  asio::io_context context;
  asio::ip::tcp::acceptor full(context, {asio::ip::address_v4::loopback(), 0});
  full.listen(0);
  asio::ip::tcp::socket only(context);
  only.connect(full.local_endpoint());
  const auto late =
      connect_and_wait(*pair.client_network, {"127.0.0.1", full.local_endpoint().port()},
                       Deadline::after(system_clock(), std::chrono::milliseconds(100)),
                       Network::Retry::kUntilDeadline);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kTimeout);
  EXPECT_NE(late.error().message.find(fmt::format("127.0.0.1:{} did not answer in time; a firewall",
                                                  full.local_endpoint().port())),
            std::string::npos)
      << late.error().message;
}

TEST(Network, ANameThatIsTheLoopbackHereIsWarnedOf) {
  Pair pair{NetworkOptions{}};
  const auto warned = [&] { return pair.server_log->last_raw().size(); };
  ASSERT_TRUE(pair.server_network->listen({"localhost", 0}, [](auto) {}));
  ASSERT_TRUE(pair.server_network->listen({"127.0.0.1", 0}, [](auto) {}));
  EXPECT_EQ(warned(), 0U) << "who says so means it";
  ASSERT_TRUE(pair.server_network->listen({"127.1", 0}, [](auto) {}));  // a name to resolve
  EXPECT_EQ(warned(), 1U);
}

TEST(Network, ManyConnectAtOnce) {
  NetworkOptions options;
  options.handshake_timeout = muster::testing::kHang;
  Pair pair{options};
  constexpr int kMany = 100;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<Connection>> connected;
  for (int i = 0; i < kMany; ++i)
    pair.client_network->connect(pair.listener->address(), soon(), [&](auto result) {
      ASSERT_TRUE(result) << result.error().message;
      const std::lock_guard lock(mutex);
      connected.push_back(*result);
      changed.notify_all();
    });
  std::unique_lock lock(mutex);
  ASSERT_TRUE(changed.wait_until(lock, soon().at(), [&] { return connected.size() == kMany; }));
}

TEST(Network, AddressesAreReadAndShown) {
  EXPECT_EQ(parse_address("node-1:29500").value(), (Address{"node-1", 29500}));
  EXPECT_EQ(parse_address("[::1]:80").value(), (Address{"::1", 80}));
  EXPECT_EQ(to_string(Address{"::1", 80}), "[::1]:80");
  for (const char* bad : {"", "host", ":1", "host:", "host:65536", "host:1x", "host:-1"})
    EXPECT_FALSE(parse_address(bad)) << bad;
}

TEST(Network, AnOccupiedPortIsNamed) {
  Pair pair{NetworkOptions{}};
  const auto second = pair.client_network->listen(pair.listener->address(), [](auto) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find(to_string(pair.listener->address())), std::string::npos);
}

}  // namespace
}  // namespace muster::net
