#include "muster/parallel/shard_exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "muster/comm/backend/loopback/loopback.h"

namespace muster::parallel {
namespace {

struct NoNotes final : GradientSink {
  void add(std::int32_t, std::int32_t, std::span<const float>, std::int32_t,
           std::int32_t) override {}
};

// A rank that computes nothing of its slices is named, by who waits at the end and by a lane that
// may not go on.
TEST(ShardExchange, NamesWhoSendsNothing) {
  const std::vector<std::int64_t> counts{4, 64, 64, 64, 64, 64, 64};
  const BucketLayout layout = plan_buckets(counts, {256, 256, true});
  std::vector<std::shared_ptr<const comm::Shards>> shards{nullptr};
  for (std::size_t bucket = 1; bucket < layout.sizes.size(); ++bucket)
    shards.push_back(std::make_shared<const comm::Shards>(comm::Shards{{0, 32, 48, 64}}));
  const auto communicators = comm::create_loopback(3);
  std::vector<Status> outcomes(3, ok());
  std::vector<std::jthread> ranks;
  for (std::int32_t rank = 0; rank < 3; ++rank)
    ranks.emplace_back([&, rank] {
      NoNotes notes;
      const auto exchange =
          ShardExchange::create(communicators[static_cast<std::size_t>(rank)], notes,
                                {.layout = layout,
                                 .shards = shards,
                                 .owners = comm::owners_in_turns({2, 2, 2}),
                                 .op = {.timeout = std::chrono::milliseconds(300), .label = {}}},
                                system_clock())
              .value();
      ASSERT_TRUE(exchange->begin(std::vector<std::int64_t>{1, 1}));
      if (rank == 1) return std::this_thread::sleep_for(std::chrono::seconds(1));
      const std::vector<float> values(64, 1.0F);
      for (const std::int32_t unit : {rank, rank + 3})
        for (std::int32_t slot = 1; slot <= 6; ++slot) exchange->add(unit, slot, values, 0, 1);
      outcomes[static_cast<std::size_t>(rank)] = exchange->finish();
    });
  ranks.clear();
  for (const std::int32_t rank : {0, 2}) {
    const Status& outcome = outcomes[static_cast<std::size_t>(rank)];
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().peer, Rank{1}) << outcome.error().message;
  }
}

}  // namespace
}  // namespace muster::parallel
