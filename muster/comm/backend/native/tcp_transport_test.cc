#include "muster/comm/backend/native/tcp_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/testing/relay.h"

namespace muster::comm {
namespace {

constexpr Duration kLong = std::chrono::seconds(30);
Deadline long_after() { return Deadline::after(system_clock(), kLong); }

// Where a rank is told that another one is, instead of where that listens.
using Elsewhere = std::function<net::Address(const net::Address&)>;

// Three ranks, each with a network of its own.
struct ThreeOverTcp {
  static constexpr std::int32_t kSize = 3;

  // `rank_0`: where rank 1 looks for it; empty: where it is.
  explicit ThreeOverTcp(const Elsewhere& rank_0 = {}, Duration patience = kLong) {
    for (std::int32_t rank = 0; rank < kSize; ++rank) {
      loops.push_back(net::create_loop("three", create_null_logger()));
      networks.push_back(
          net::create_network(*loops.back(), credentials, {}, create_null_logger()).value());
    }
    std::vector<std::thread> threads;
    for (std::int32_t rank = 0; rank < kSize; ++rank)
      threads.emplace_back([&, rank] {
        const Group group{Rank{rank}, kSize, Generation{1}};
        Exchange exchange = exchange_through(*store, group, "three");
        if (rank == 1 && rank_0) exchange = misled(std::move(exchange), rank_0);
        meet(group, exchange, patience);
      });
    for (std::thread& thread : threads) thread.join();
  }
  ~ThreeOverTcp() {
    for (const auto& loop : loops) loop->stop();
  }

  void meet(Group group, const Exchange& exchange, Duration patience) {
    const auto rank = static_cast<std::size_t>(to_int(group.rank));
    TcpOptions options;
    options.network = networks[rank].get();
    options.listen_host = "127.0.0.1";
    options.log = create_null_logger();
    auto made =
        create_tcp_transport(group, options, exchange, Deadline::after(system_clock(), patience));
    if (made)
      transports[rank] = std::move(*made);
    else
      errors[rank] = made.error();
  }
  // In the first exchange.
  static Exchange misled(Exchange exchange, const Elsewhere& rank_0) {
    return [exchange = std::move(exchange), rank_0, is_first = true](
               const std::string& mine,
               Deadline deadline) mutable -> Result<std::vector<std::string>> {
      MUSTER_ASSIGN(auto told, exchange(mine, deadline));
      if (!std::exchange(is_first, false)) return told;
      const auto end = std::min(told[0].find(' '), told[0].size());
      MUSTER_ASSIGN(const auto address, net::parse_address(told[0].substr(0, end)));
      told[0].replace(0, end, net::to_string(rank_0(address)));
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
  std::vector<std::unique_ptr<net::SystemLoop>> loops;
  std::vector<std::unique_ptr<net::Network>> networks;
  std::vector<std::unique_ptr<Transport>> transports{kSize};
  std::vector<Error> errors{kSize};  // of those that have none
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

TEST(TcpTransport, KnowsWhoTakesNothingOfACollective) {
  ThreeOverTcp three;
  ASSERT_TRUE(three.transports[0] && three.transports[1] && three.transports[2]);
  Transport& sender = *three.transports[0];
  std::promise<void> goes_on;
  three.loops[1]->post([held = goes_on.get_future().share()] { held.wait(); });
  const std::vector<std::byte> piece(std::size_t{4} << 20);
  for (std::uint64_t number = 1; number <= 16; ++number)  // more than the system keeps for it
    ASSERT_TRUE(sender.post(Rank{1}, {7, number}, piece));
  EXPECT_TRUE(sender.awaited().empty()) << "it has yet to wait";
  ASSERT_FALSE(sender.settle(Deadline(TimePoint{})));
  EXPECT_EQ(sender.awaited(), std::vector{Rank{1}});
  goes_on.set_value();
  ASSERT_TRUE(sender.settle(long_after()));
  EXPECT_TRUE(sender.awaited().empty());
}

// As a rank does that has more handshakes than it has time for.
TEST(TcpTransport, WhoIsLetGoOfInAHandshakeComesAgain) {
  // So many times rank 0 lets go of rank 1, which has done its part of the handshake.
  std::unique_ptr<net::testing::Relay> relay;
  ThreeOverTcp three([&](const net::Address& there) {
    relay = std::make_unique<net::testing::Relay>(there, 2);
    return relay->address();
  });
  ASSERT_TRUE(three.transports[0] && three.transports[1] && three.transports[2])
      << three.errors[1].message;
  EXPECT_EQ(relay->cuts(), 2);
  const std::byte sent{7};
  const MessageId id{MessageId::kPointToPoint, 0};
  ASSERT_TRUE(three.transports[1]->post(Rank{0}, id, std::span(&sent, 1)));
  std::byte got{};
  ASSERT_TRUE(three.transports[0]->inbox().take(Rank{1}, id, std::span(&got, 1), long_after()));
  EXPECT_EQ(got, sent);
}

// Linux drops what comes for a listener that has no room, as a firewall does.
TEST(TcpTransport, WhoDoesNotReachWhomIsToldByAll) {
  asio::io_context context;
  asio::ip::tcp::acceptor full(context, {asio::ip::address_v4::loopback(), 0});
  full.listen(0);
  asio::ip::tcp::socket only(context);
  only.connect(full.local_endpoint());
  const ThreeOverTcp three(
      [&](const net::Address&) {
        return net::Address{"127.0.0.1", full.local_endpoint().port()};
      },
      std::chrono::seconds(8));
  for (std::size_t rank = 0; rank < three.errors.size(); ++rank) {
    const std::string& told = three.errors[rank].message;
    for (const char* part : {"rank 1 (127.0.0.1) cannot reach rank 0 (127.0.0.1) in generation 1: ",
                             "; a firewall ", "have to reach each other at any port above 1023"})
      EXPECT_NE(told.find(part), std::string::npos) << "rank " << rank << ": " << told;
    EXPECT_EQ(three.errors[rank].peer, rank == 1 ? Rank{0} : Rank{1}) << told;
  }
}

}  // namespace
}  // namespace muster::comm
