#include "muster/comm/backend/native/tcp_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/testing/relay.h"

namespace muster::comm {
namespace {

Deadline long_after() { return Deadline::after(system_clock(), std::chrono::seconds(30)); }

// Three ranks, each with a network of its own.
struct ThreeOverTcp {
  static constexpr std::int32_t kSize = 3;

  // `cuts`: so many times rank 0 lets go of rank 1, which has done its part of the handshake.
  explicit ThreeOverTcp(int cuts = 0) {
    for (std::int32_t rank = 0; rank < kSize; ++rank) {
      loops.push_back(net::create_loop("three", create_null_logger()));
      networks.push_back(
          net::create_network(*loops.back(), credentials, {}, create_null_logger()).value());
    }
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < kSize; ++rank)
      threads.emplace_back([this, rank, cuts] {
        meet({Rank{rank}, kSize, Generation{1}}, rank == 1 ? cuts : 0);
      });
    for (std::thread& thread : threads) thread.join();
  }
  ~ThreeOverTcp() {
    for (const auto& loop : loops) loop->stop();
  }

  void meet(Group group, int cuts) {
    const auto rank = static_cast<std::size_t>(to_int(group.rank));
    TcpOptions options;
    options.network = networks[rank].get();
    options.listen_host = "127.0.0.1";
    options.log = create_null_logger();
    const Exchange exchange = exchange_through(*store, group, "three");
    auto made = create_tcp_transport(
        group, options, cuts > 0 ? over_relay(exchange, cuts) : exchange, long_after());
    ASSERT_TRUE(made) << made.error().message;
    transports[rank] = std::move(*made);
  }
  // Rank 0 is told to be at the relay's address, in the first exchange.
  Exchange over_relay(const Exchange& exchange, int cuts) {
    return [this, exchange, cuts](const std::string& mine,
                                  Deadline deadline) -> Result<std::vector<std::string>> {
      MUSTER_ASSIGN(auto told, exchange(mine, deadline));
      if (relay) return told;
      const auto end = std::min(told[0].find(' '), told[0].size());
      MUSTER_ASSIGN(const auto address, net::parse_address(told[0].substr(0, end)));
      relay = std::make_unique<net::testing::Relay>(address, cuts);
      told[0].replace(0, end, net::to_string(relay->address()));
      return told;
    };
  }
  // What ends a take of what rank 2 never sends.
  Error why_nothing_comes(std::size_t rank) {
    std::byte into{};
    const Status taken = transports[rank]->inbox().take(Rank{2}, {MessageId::kPointToPoint, 0},
                                                        std::span(&into, 1), long_after());
    return taken ? Error{} : taken.error();
  }

  const net::Credentials credentials = net::create_credentials(system_clock().wall()).value();
  const std::unique_ptr<cluster::KvStore> store = cluster::create_memory_store();
  std::unique_ptr<net::testing::Relay> relay;
  std::vector<std::unique_ptr<net::SystemLoop>> loops;
  std::vector<std::unique_ptr<net::Network>> networks;
  std::vector<std::unique_ptr<Transport>> transports{kSize};
};

// Else the others find its connection closed, and blame it.
TEST(TcpTransport, WhoFailsAndGoesHasNamedTheCulprit) {
  ThreeOverTcp three;
  ASSERT_TRUE(three.transports[0] && three.transports[1] && three.transports[2]);
  std::promise<void> goes_on;
  three.loops[2]->post([held = goes_on.get_future().share()] { held.wait(); });
  three.transports[2]->fail(fail(ErrorCode::kTimeout, "rank 1 did not answer", Rank{1}));
  three.transports[2].reset();  // before its loop has sent anything
  goes_on.set_value();
  for (const std::size_t rank : {0u, 1u}) {
    const Error why = three.why_nothing_comes(rank);
    EXPECT_EQ(why.peer, Rank{1}) << why.message;
    EXPECT_NE(why.message.find("rank 1 did not answer"), std::string::npos) << why.message;
  }
}

// As a rank does that has more handshakes than it has time for.
TEST(TcpTransport, WhoIsLetGoOfInAHandshakeComesAgain) {
  ThreeOverTcp three(2);
  ASSERT_TRUE(three.transports[0] && three.transports[1] && three.transports[2]);
  EXPECT_EQ(three.relay->cuts(), 2);
  const std::byte sent{7};
  const MessageId id{MessageId::kPointToPoint, 0};
  ASSERT_TRUE(three.transports[1]->post(Rank{0}, id, std::span(&sent, 1)));
  std::byte got{};
  ASSERT_TRUE(three.transports[0]->inbox().take(Rank{1}, id, std::span(&got, 1), long_after()));
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace muster::comm
