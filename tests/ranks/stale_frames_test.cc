// What is left of an old generation, or belongs to another group, is turned away at the door of a
// new one, and nobody is taken for it.

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <thread>

#include "muster/cluster/store.h"
#include "muster/comm/backend/native/native.h"
#include "muster/net/credentials.h"
#include "muster/net/network.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

constexpr Generation kBefore{4};
constexpr Generation kNow{5};

class Door final : public net::Receiver {
 public:
  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader&) override {
    return fail(ErrorCode::kInvalid, "nobody should answer");
  }
  void on_frame(const net::FrameHeader&) override {}
  void on_close(const Error&) override { closed_.set_value(); }
  bool is_shut() {
    return closed_.get_future().wait_for(muster::testing::kHang) == std::future_status::ready;
  }

 private:
  std::promise<void> closed_;
};

// One who says hello to rank 0 as rank 1 would.
class Impostor {
 public:
  // `first`: what rank 0 told the others, "host:port context".
  Impostor(net::Network& network, const std::string& first, Generation generation,
           std::uint32_t other_context) {
    const auto space = first.find(' ');
    const auto address = net::parse_address(first.substr(0, space)).value();
    connection_ = net::connect_and_wait(network, address, muster::testing::soon()).value();
    connection_->start(door_);
    header_.generation = generation;
    header_.sender = Rank{1};
    header_.context =
        static_cast<std::uint32_t>(std::stoul(first.substr(space + 1))) + other_context;
    connection_->send(header_, {});
  }
  // Of the group that it has got into, but of a generation before.
  void send_a_stale_frame() {
    header_.generation = kBefore;
    ++header_.kind;
    connection_->send(header_, {});
  }
  bool is_turned_away() { return door_->is_shut(); }

 private:
  const std::shared_ptr<Door> door_ = std::make_shared<Door>();
  std::shared_ptr<net::Connection> connection_;
  net::FrameHeader header_{.kind = net::kFirstCommFrame};
};

struct Stranger {
  Generation generation;
  std::uint32_t other_context;
};

// Two ranks meet; the second one comes after a stranger.
void meet(const Stranger& stranger) {
  const auto credentials = net::create_credentials(system_clock().wall()).value();
  const auto loop = net::create_loop("stale", create_null_logger());
  const auto network = net::create_network(*loop, credentials, {}, create_null_logger()).value();
  const auto store = cluster::create_memory_store();
  bool refused = false;
  const auto rank = [&](std::int32_t number) {
    NativeOptions options;
    options.group = {Rank{number}, 2, kNow};
    options.transport = NativeTransport::kTcp;
    options.network = network.get();
    const Exchange told = exchange_through(*store, options.group, "meeting");
    int times = 0;
    options.exchange = [&, told, number](const std::string& mine, Deadline deadline) {
      auto all = told(mine, deadline);
      const bool has_addresses = ++times == 2;  // before that they agree on the transport
      if (number == 1 && has_addresses && all)
        refused = Impostor(*network, (*all)[0], stranger.generation, stranger.other_context)
                      .is_turned_away();
      return all;
    };
    const auto world = create_native(options);
    ASSERT_TRUE(world) << world.error().message;
    std::int32_t sum = number + 1;
    const Status status = (*world)->submit(AllReduce{view_of(std::span(&sum, 1))}, {}).wait();
    EXPECT_TRUE(status) << status.error().message;
    EXPECT_EQ(sum, 3);
  };
  std::thread second(rank, 1);
  rank(0);
  second.join();
  EXPECT_TRUE(refused);
  loop->stop();
}

TEST(StaleFrames, OfAnOldGenerationAreRefused) { meet({kBefore, 0}); }
TEST(StaleFrames, OfAnotherGroupAreRefused) { meet({kNow, 1}); }

// Also from one who is in already: nobody takes it for what it waits for.
TEST(StaleFrames, FromAConnectedRankEndTheGeneration) {
  const auto credentials = net::create_credentials(system_clock().wall()).value();
  const auto loop = net::create_loop("stale", create_null_logger());
  const auto network = net::create_network(*loop, credentials, {}, create_null_logger()).value();
  std::optional<Impostor> second;
  NativeOptions options;
  options.costs = default_costs(Wire::kTcp);  // the impostor would not measure its link
  options.group = {Rank{0}, 2, kNow};
  options.transport = NativeTransport::kTcp;
  options.network = network.get();
  int times = 0;
  options.exchange = [&](const std::string& mine, Deadline) -> Result<std::vector<std::string>> {
    if (++times == 2) second.emplace(*network, mine, kNow, 0);
    return std::vector{mine, mine};
  };
  const auto world = create_native(options);
  ASSERT_TRUE(world) << world.error().message;
  std::int32_t sum = 1;
  auto work = (*world)->submit(AllReduce{view_of(std::span(&sum, 1))}, {});
  second->send_a_stale_frame();
  const Status status = work.wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().peer, Rank{1});
  EXPECT_NE(status.error().message.find("in generation 4: another generation"), std::string::npos)
      << status.error().message;
  EXPECT_TRUE(second->is_turned_away());
  loop->stop();
}

}  // namespace
}  // namespace muster::comm
