// A rank whose process stands still: its connections are open, and nobody serves them.

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/backend/native/tcp_transport.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

constexpr Duration kBeforeTheyGiveUp = std::chrono::seconds(20);  // and have all connected

// Ranks of one group, each with a network of its own.
class Apart {
 public:
  explicit Apart(std::int32_t size) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      loops_.push_back(net::create_loop("apart", create_null_logger()));
      networks_.push_back(
          net::create_network(*loops_.back(), credentials_, {}, create_null_logger()).value());
    }
  }
  ~Apart() {
    for (const auto& loop : loops_) loop->stop();
  }

  std::int32_t size() const noexcept { return static_cast<std::int32_t>(loops_.size()); }
  void freeze(std::int32_t rank) { loops_[static_cast<std::size_t>(rank)]->stop(); }
  NativeOptions options(std::int32_t rank) const {
    NativeOptions options;
    options.group = {Rank{rank}, size(), Generation{1}};
    options.transport = NativeTransport::kTcp;
    options.network = networks_[static_cast<std::size_t>(rank)].get();
    options.connect_timeout = kBeforeTheyGiveUp;
    options.exchange = exchange_through(*store_, options.group, "apart");
    return options;
  }

 private:
  const net::Credentials credentials_ = net::create_credentials(system_clock().wall()).value();
  const std::unique_ptr<cluster::KvStore> store_ = cluster::create_memory_store();
  std::vector<std::unique_ptr<net::SystemLoop>> loops_;
  std::vector<std::unique_ptr<net::Network>> networks_;
};

// Those who measure with a neighbour that waits for it do not take him for it.
TEST(StuckPeer, IsNamedByAllWhileLinksAreMeasured) {
  Apart apart(4);
  std::vector<std::thread> threads;
  for (std::int32_t number = 0; number < 3; ++number)
    threads.emplace_back([&apart, number] {
      const auto world = create_native(apart.options(number));
      ASSERT_FALSE(world);
      EXPECT_EQ(world.error().peer, Rank{3}) << world.error().message;
    });
  NativeOptions options = apart.options(3);
  const auto deadline = Deadline::after(system_clock(), kBeforeTheyGiveUp);
  ASSERT_TRUE(options.exchange("tcp ? x", deadline));
  const TcpOptions tcp{options.network, options.listen_host, options.log, {}, ""};
  const auto transport = create_tcp_transport(options.group, tcp, options.exchange, deadline);
  ASSERT_TRUE(transport) << transport.error().message;
  apart.freeze(3);
  for (std::thread& thread : threads) thread.join();
}

// What a collective has yet to hand over to one rank holds up no message to another.
TEST(StuckPeer, HoldsUpNoMessageToAnotherRank) {
  Apart apart(3);
  std::vector<std::shared_ptr<Communicator>> ranks(3);
  std::vector<std::thread> threads;
  for (std::int32_t number = 0; number < 3; ++number)
    threads.emplace_back([&, number] {
      NativeOptions options = apart.options(number);
      options.costs = default_costs(Wire::kTcp);
      options.connect_timeout = muster::testing::kHang;
      auto world = create_native(options);
      ASSERT_TRUE(world) << world.error().message;
      ranks[static_cast<std::size_t>(number)] = *world;
    });
  for (std::thread& thread : threads) thread.join();
  apart.freeze(2);

  constexpr std::size_t kMore = std::size_t{16} << 20;  // floats; than sockets take
  std::vector<std::vector<float>> sums(2, std::vector<float>(kMore, 1.0F));
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const TensorView view{DType::kF32,
                          {static_cast<std::int64_t>(kMore)},
                          std::as_writable_bytes(std::span(sums[rank]))};
    works.push_back(ranks[rank]->submit(
        AllReduce{view},
        {.timeout = muster::testing::kHang, .label = "sum", .algorithm = Algorithm::kDirect}));
    works.back().on_done([](const Status&) {});  // begins it
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until sockets are full
  std::int32_t sent = 7;
  std::int32_t came = 0;
  const OpOptions soon{.timeout = muster::testing::kHang, .label = "soon"};
  auto send = ranks[0]->submit(Send{view_of(std::span(&sent, 1)), Rank{1}}, soon);
  auto recv = ranks[1]->submit(Recv{view_of(std::span(&came, 1)), Rank{0}}, soon);
  const Status left = send.wait();
  EXPECT_TRUE(left) << left.error().message;
  EXPECT_TRUE(recv.wait());
  EXPECT_EQ(came, 7);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ranks[rank]->abort(fail(ErrorCode::kCancelled, "enough"));
    EXPECT_FALSE(works[rank].wait());
  }
}

}  // namespace
}  // namespace muster::comm
