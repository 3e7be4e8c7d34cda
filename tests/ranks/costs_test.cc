// What links cost is measured when ranks meet, once, and is the same table for all of them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/comm/backend/native/tcp_transport.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"

namespace muster::comm {
namespace {

constexpr Duration kConnecting = std::chrono::seconds(5);

// Where ranks meet, generation after generation.
class Place {
 public:
  Place()
      : credentials_(net::create_credentials(system_clock().wall()).value()),
        loop_(net::create_loop("costs", create_null_logger())),
        network_(net::create_network(*loop_, credentials_, {}, create_null_logger()).value()),
        store_(cluster::create_memory_store()) {}
  ~Place() { loop_->stop(); }

  NativeOptions options(std::int32_t rank, const std::vector<std::string>& hosts,
                        std::uint32_t generation) const {
    NativeOptions options;
    options.group = {Rank{rank}, static_cast<std::int32_t>(hosts.size()), Generation{generation}};
    options.network = network_.get();
    options.host = hosts[static_cast<std::size_t>(rank)];
    options.connect_timeout = kConnecting;
    options.exchange =
        exchange_through(*store_, options.group, fmt::format("meeting/{}", generation));
    return options;
  }

 private:
  const net::Credentials credentials_;
  const std::unique_ptr<net::SystemLoop> loop_;
  const std::unique_ptr<net::Network> network_;
  const std::unique_ptr<cluster::KvStore> store_;
};

// Ranks as threads, the i-th on hosts[i] with books[i]; how many exchanges each of them had.
int meet(const Place& place, const std::vector<std::string>& hosts,
         const std::vector<CostBook*>& books, std::uint32_t generation) {
  std::vector<int> exchanges(hosts.size());
  const auto rank = [&](std::int32_t number) {
    const auto at = static_cast<std::size_t>(number);
    NativeOptions options = place.options(number, hosts, generation);
    options.book = books[at];
    options.exchange = [&count = exchanges[at], real = options.exchange](const std::string& mine,
                                                                         Deadline deadline) {
      ++count;
      return real(mine, deadline);
    };
    const auto world = create_native(options);
    ASSERT_TRUE(world) << world.error().message;
    float value = 1;
    const TensorView one{DType::kF32, {1}, std::as_writable_bytes(std::span(&value, 1))};
    const Status summed = (*world)->submit(AllReduce{one}, {}).wait();
    ASSERT_TRUE(summed) << summed.error().message;
    EXPECT_EQ(value, static_cast<float>(hosts.size()));
    ASSERT_TRUE((*world)->submit(Barrier{}, {}).wait());
  };
  std::vector<std::thread> threads;
  for (std::int32_t number = 0; number < std::ssize(hosts); ++number)
    threads.emplace_back(rank, number);
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ(exchanges[i], exchanges[0]) << i;
    EXPECT_EQ(books[i]->table, books[0]->table) << i;
  }
  return exchanges[0];
}

constexpr int kKnown = 3;     // exchanges: who is there, two to connect
constexpr int kMeasured = 4;  // and what each measured

void expect_measured(const LinkCosts& link) {
  EXPECT_GT(link.latency, 0);
  EXPECT_LT(link.latency, 1);
  EXPECT_GT(link.per_byte, 1e-13);
  EXPECT_LT(link.per_byte, 1e-3);
}

TEST(Costs, AreMeasuredForEveryKindOfLinkThatThereIs) {
  const Place place;
  std::vector<CostBook> books(4);
  ASSERT_EQ(meet(place, {"a", "b", "c"}, {&books[0], &books[1], &books[2]}, 1), kMeasured);
  expect_measured(books[0].table->between);
  EXPECT_EQ(books[0].table->inside, LinkCosts{});
  EXPECT_GT(books[0].table->per_message, 0);
  EXPECT_GT(books[0].table->reduce_per_byte, 0);
  EXPECT_GT(books[0].table->copy_per_byte, 0);

  // Two of "a": nobody knows the way between them yet. What is known of a to b is not timed again.
  const MeasuredLink before = books[0].links.at("b");
  ASSERT_EQ(meet(place, {"a", "a", "b"}, {&books[0], &books[3], &books[1]}, 2), kMeasured);
  expect_measured(books[0].table->inside);
  expect_measured(books[0].table->between);
  EXPECT_EQ(books[0].links.at("b"), before);
  EXPECT_TRUE(books[0].links.contains("a"));
}

TEST(Costs, AreKnownInLaterGenerationsUntilAHostIsNew) {
  const Place place;
  std::vector<CostBook> books(5);
  ASSERT_EQ(meet(place, {"a", "b", "c", "a"}, {&books[0], &books[1], &books[2], &books[3]}, 1),
            kMeasured);
  const CostTable table = *books[0].table;
  // One has gone; then one comes to a host where somebody knows.
  ASSERT_EQ(meet(place, {"b", "c", "a"}, {&books[1], &books[2], &books[3]}, 2), kKnown);
  EXPECT_EQ(books[1].table, table);
  CostBook fresh;
  ASSERT_EQ(meet(place, {"b", "c", "a", "c"}, {&books[1], &books[2], &books[3], &fresh}, 3),
            kKnown);
  EXPECT_EQ(fresh.table, table);
  ASSERT_EQ(meet(place, {"b", "d"}, {&books[1], &books[4]}, 4), kMeasured);
  // Those who were measured apart from each other have different tables.
  ASSERT_EQ(meet(place, {"b", "a"}, {&books[1], &books[3]}, 5), kMeasured);
}

TEST(Costs, OneThatGoesAwayMeanwhileIsNamed) {
  const Place place;
  const std::vector<std::string> hosts{"a", "b", "c"};
  const auto rank = [&](std::int32_t number) {
    const auto world = create_native(place.options(number, hosts, 1));
    ASSERT_FALSE(world);
    EXPECT_EQ(world.error().peer, Rank{1}) << world.error().message;
  };
  std::thread first(rank, 0);
  std::thread third(rank, 2);
  NativeOptions options = place.options(1, hosts, 1);
  const auto deadline = Deadline::after(system_clock(), kConnecting);
  ASSERT_TRUE(options.exchange("auto ? b", deadline));
  const TcpOptions tcp{options.network, options.listen_host, options.log, {}, ""};
  ASSERT_TRUE(create_tcp_transport(options.group, tcp, options.exchange, deadline));  // and goes
  first.join();
  third.join();
}

TEST(Costs, WhatMakesNoSenseIsRefused) {
  const Place place;
  const std::vector<std::string> hosts{"a", "b"};
  std::thread other([&] {
    const auto world = create_native(place.options(1, hosts, 1));
    ASSERT_FALSE(world);
    EXPECT_EQ(world.error().peer, Rank{0});
    EXPECT_NE(world.error().message.find("rank 0 announces 4294967295 messages"), std::string::npos)
        << world.error().message;
  });
  NativeOptions options = place.options(0, hosts, 1);
  const auto deadline = Deadline::after(system_clock(), kConnecting);
  ASSERT_TRUE(options.exchange("auto ? a", deadline));
  const TcpOptions tcp{options.network, options.listen_host, options.log, {}, ""};
  const auto transport =
      create_tcp_transport(options.group, tcp, options.exchange, deadline).value();
  const std::uint32_t endless[] = {~0U, ~0U};
  ASSERT_TRUE(transport->post(Rank{1}, {0, 1}, std::as_bytes(std::span(endless))));
  ASSERT_TRUE(transport->settle(deadline));
  ASSERT_TRUE(options.exchange("+", deadline));
  other.join();

  EXPECT_EQ(cost_table_from("1,2,3,4,5,6"), std::nullopt);
  EXPECT_EQ(cost_table_from("1,2,3,4,5,6,7,8"), std::nullopt);
  EXPECT_EQ(cost_table_from("1,2,3,4,5,6,-7"), std::nullopt);
  EXPECT_EQ(cost_table_from("1,2,3,4,5,6,nan"), std::nullopt);
  const CostTable table = default_costs(Wire::kTcp);
  EXPECT_EQ(cost_table_from(to_text(table)), table);
}

}  // namespace
}  // namespace muster::comm
