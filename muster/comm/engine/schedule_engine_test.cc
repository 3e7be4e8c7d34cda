#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/engine/transport.h"
#include "muster/testing/soon.h"

namespace muster::comm {
namespace {

constexpr Group kFirstOfThree{Rank{0}, 3, Generation{1}};

// Tells of what is posted, and has a test put into the inbox what it likes.
class ScriptedTransport final : public Transport {
 public:
  const Topology& topology() const noexcept override { return topology_; }
  Inbox& inbox() noexcept override { return inbox_; }
  Status post(Rank to, MessageId id, std::span<const std::byte> bytes) override {
    posted(to, id, bytes);
    return ok();
  }
  Status settle(Deadline) override { return ok(); }
  Status settle_messages(Rank, Deadline) override { return ok(); }
  Status enter(std::uint64_t, const Signature&) override { return ok(); }
  void announce() override {}
  std::vector<Rank> missing(std::uint64_t) override { return {}; }
  void fail(const Error& why) noexcept override { inbox_.fail(why); }
  void stop(const Error& why) noexcept override { inbox_.fail(why); }
  Result<std::unique_ptr<Transport>> split(Group, std::int32_t, const Exchange&,
                                           Deadline) override {
    return muster::fail(ErrorCode::kUnsupported, "no parts");
  }

  std::function<void(Rank to, MessageId id, std::span<const std::byte> bytes)> posted;

 private:
  const Topology topology_ = Topology::apart(kFirstOfThree.size);
  Inbox inbox_{kFirstOfThree.size, system_clock()};
};

// Rank 2 sends the rest only once rank 0 has passed on the sum with the beginning.
TEST(ScheduleEngine, ReducesAndPassesOnASegmentBeforeTheNextArrives) {
  constexpr std::uint64_t kSequence = 7;
  constexpr std::size_t kBlock = std::size_t{1} << 20;  // bytes; a third of the tensor
  auto owned = std::make_unique<ScriptedTransport>();
  ScriptedTransport& transport = *owned;
  const auto engine =
      create_schedule_engine(kFirstOfThree, std::move(owned), default_costs(Wire::kTcp));
  const std::vector<float> twos(kBlock / sizeof(float), 2.0F);
  std::size_t segment = 0;
  const auto arrive = [&](std::uint64_t number) {
    const auto bytes = std::as_bytes(std::span(twos)).first(segment);
    transport.inbox().deliver(Rank{2}, {kSequence, number}, {bytes.begin(), bytes.end()});
  };
  transport.posted = [&](Rank to, MessageId id, std::span<const std::byte> bytes) {
    EXPECT_EQ(to, Rank{1});
    if (id.number == 0) {
      segment = bytes.size();
      arrive(0);
    }
    if (id.number * segment != kBlock) return;
    float sum = 0;
    std::memcpy(&sum, bytes.data(), sizeof(sum));
    EXPECT_EQ(sum, 3.0F);
    for (std::uint64_t number = 1; number * segment < 4 * kBlock; ++number) arrive(number);
  };
  std::vector<float> numbers(3 * kBlock / sizeof(float), 1.0F);
  const Op op = AllReduce{view_of(std::span(numbers))};
  OpOptions options;
  options.algorithm = Algorithm::kRing;
  const Status played = engine->run({op, options, kSequence, muster::testing::soon()});
  EXPECT_TRUE(played) << played.error().message;
  EXPECT_LT(segment, kBlock);
}

TEST(ScheduleEngine, KnowsFromWhomItHasYetToHear) {
  constexpr std::uint64_t kSequence = 7;
  auto owned = std::make_unique<ScriptedTransport>();
  ScriptedTransport& transport = *owned;
  transport.posted = [](Rank, MessageId, std::span<const std::byte>) {};
  const auto engine =
      create_schedule_engine(kFirstOfThree, std::move(owned), default_costs(Wire::kTcp));
  const auto awaits = [&](std::vector<Rank> ranks) {
    return engine->awaited() == Awaited{Awaited::Over::kConnections, std::move(ranks)};
  };
  EXPECT_TRUE(awaits({}));
  std::vector<float> numbers(3, 1.0F);
  const Op op = AllReduce{view_of(std::span(numbers))};
  OpOptions options;
  options.algorithm = Algorithm::kRing;
  ASSERT_FALSE(engine->run({op, options, kSequence, Deadline(TimePoint{})}));
  EXPECT_TRUE(awaits({Rank{2}}));
  transport.inbox().deliver(Rank{2}, {kSequence, 0}, std::vector<std::byte>(sizeof(float)));
  EXPECT_TRUE(awaits({})) << "it is here, and has yet to be taken";
}

void expect_all_reduced(const Topology& topology, const Method& method) {
  constexpr std::size_t kMany = 600 * 1000;  // a block of a quarter takes several messages
  constexpr std::size_t kCycle = 1000;
  const auto worlds = create_loopback(topology);
  std::vector<std::vector<float>> tensors;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank) {
    tensors.emplace_back(kMany);
    for (std::size_t i = 0; i < kMany; ++i)
      tensors.back()[i] = static_cast<float>(i % kCycle + rank);
  }
  OpOptions options;
  options.algorithm = method.algorithm;
  options.inner = method.inner;
  options.outer = method.outer;
  std::vector<Work> works;
  for (std::size_t rank = 0; rank < worlds.size(); ++rank)
    works.push_back(worlds[rank]->submit(AllReduce{view_of(std::span(tensors[rank]))}, options));
  const Status outcome = wait_for_all(works);
  ASSERT_TRUE(outcome) << describe(method) << ": " << outcome.error().message;
  std::size_t wrong = 0;
  for (const std::vector<float>& tensor : tensors)
    for (std::size_t i = 0; i < kMany; ++i)
      wrong += tensor[i] != static_cast<float>(4 * (i % kCycle) + 0 + 1 + 2 + 3);
  EXPECT_EQ(wrong, 0u) << describe(method);
}

TEST(ScheduleEngine, SumsWhatTakesSeveralMessages) {
  const Topology apart = Topology::apart(4);
  for (const Method& method : methods_of(Collective::Kind::kAllReduce, apart))
    expect_all_reduced(apart, method);
  const Topology pairs = Topology::regular(2, 2);
  expect_all_reduced(pairs, {Algorithm::kHierarchical, Algorithm::kRing, Algorithm::kRing});
  expect_all_reduced(pairs, {Algorithm::kHierarchical, Algorithm::kTree, Algorithm::kDoubleTree});
}

}  // namespace
}  // namespace muster::comm
