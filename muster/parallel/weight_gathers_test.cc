#include "muster/parallel/weight_gathers.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "muster/comm/backend/loopback/loopback.h"

namespace muster::parallel {
namespace {

using layout::uses_of_evaluation;
using layout::uses_of_step;

// Block b is one parameter of 16 floats, all b + 1 and `more`, half of it on each of two ranks.
struct Town {
  explicit Town(std::size_t blocks, std::shared_ptr<const PackedWeights> packed = nullptr,
                float more = 0) {
    const auto communicators = comm::create_loopback(2);
    std::vector<std::jthread> ranks;
    for (std::size_t r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        std::vector<WeightBucket> buckets;
        std::vector<std::vector<std::size_t>> needed;
        for (std::size_t b = 0; b < blocks; ++b) {
          parameters[r].push_back(torch::empty({16}));
          buckets.push_back(
              {.shards = std::make_shared<comm::Shards>(comm::Shards{{0, 8, 16}}),
               .own = std::make_shared<std::vector<float>>(8, static_cast<float>(b + 1) + more),
               .places = {{parameters[r].back(), 0}},
               .packed = packed});
          needed.push_back({b});
        }
        gathers[r] = WeightGathers::create(*communicators[r], std::move(buckets), std::move(needed),
                                           {.timeout = kTimeout, .label = {}})
                         .value();
      });
    ranks.clear();
    held = communicators;
  }
  static constexpr Duration kTimeout = std::chrono::seconds(20);
  bool has(std::size_t rank, std::size_t block) const {
    return parameters[rank][block].storage().data() != nullptr;
  }
  float sum(std::size_t rank, std::size_t block) const {
    return parameters[rank][block].sum().item<float>();
  }

  std::vector<std::shared_ptr<comm::Communicator>> held;
  std::vector<at::Tensor> parameters[2];
  std::unique_ptr<WeightGathers> gathers[2];
};

TEST(WeightUses, GoForwardAndBackTurnByTurn) {
  const std::vector<std::int32_t> own = {2, 0};
  EXPECT_EQ(
      uses_of_step(own, 2),
      (std::vector<WeightUse>{{0, 2}, {1, 2}, {1, 2}, {0, 2}, {0, 0}, {1, 0}, {1, 0}, {0, 0}}));
  EXPECT_EQ(uses_of_evaluation(2), (std::vector<WeightUse>{{0, 1}, {1, 1}}));
}

// The first and the last block stay from one way through the model to the next.
TEST(WeightUses, SayWhatIsGatheredHowOften) {
  const std::vector<std::vector<std::size_t>> needed = {{0}, {1, 2}, {3}, {0, 4}};  // 0 is tied
  const std::vector<std::int64_t> sizes = {10, 20, 30, 40, 50};
  const std::vector<std::int32_t> one = {1}, two = {1, 0};
  const auto once = layout::traffic_of(uses_of_step(one, 4), needed, sizes);
  EXPECT_EQ(once.gathers, (std::vector<std::int32_t>{3, 2, 2, 2, 1}));
  EXPECT_EQ(once.most, 100);
  const auto twice = layout::traffic_of(uses_of_step(two, 4), needed, sizes);
  EXPECT_EQ(twice.gathers, (std::vector<std::int32_t>{5, 4, 4, 4, 2}));
}

// A rank without users of its own goes on as the other one does.
TEST(WeightGathers, AreThereForTheirUseAndTheNext) {
  Town town(4);
  const std::vector<std::int32_t> one = {1}, none = {0};
  ASSERT_TRUE(town.gathers[0]->begin(uses_of_step(one, 4)));
  ASSERT_TRUE(town.gathers[1]->begin(uses_of_step(none, 4)));
  for (const std::size_t use : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const std::size_t block = use < 4 ? use : 7 - use;
    ASSERT_TRUE(town.gathers[0]->enter(use));
    EXPECT_EQ(town.sum(0, block), 16.0f * static_cast<float>(block + 1));
    const std::size_t next = use < 3 ? use + 1 : use < 7 ? 6 - use : block;
    for (std::size_t other = 0; other < 4; ++other)
      EXPECT_TRUE(!town.has(0, other) || other == block || other == next) << use;
    town.gathers[0]->leave(use);
  }
  for (const auto& gathers : town.gathers) {
    EXPECT_TRUE(gathers->finish());
    EXPECT_EQ(gathers->bytes_here(), 0u);
    EXPECT_EQ(gathers->most_bytes(), 2 * 16 * sizeof(float));
    EXPECT_EQ(gathers->sent_bytes(), (4 + 3) * 8 * sizeof(float));  // the last block once
  }
  for (std::size_t block = 0; block < 4; ++block) EXPECT_FALSE(town.has(0, block));
}

// A rank's own floats are rounded as everybody's are.
TEST(WeightGathers, TravelIn16BitsWhereProductsRoundThem) {
  const float small = 1.0F / 1024;
  const comm::Shards halves{{0, 8, 16}};
  const std::vector<PackedWeights::Run> runs = {{12, true}, {16, false}};
  Town town(1, std::make_shared<const PackedWeights>(DType::kBF16, halves, runs), small);
  const std::vector<std::int32_t> one = {1};
  for (const auto& gathers : town.gathers) ASSERT_TRUE(gathers->begin(uses_of_step(one, 1)));
  std::vector<float> expected(16, 1.0F);
  std::fill(expected.begin() + 12, expected.end(), 1.0F + small);
  for (const std::size_t rank : {0, 1}) {
    ASSERT_TRUE(town.gathers[rank]->enter(0));
    EXPECT_TRUE(town.parameters[rank][0].equal(torch::tensor(expected)));
    for (const std::size_t use : {0, 1}) town.gathers[rank]->leave(use);
    EXPECT_TRUE(town.gathers[rank]->finish());
    EXPECT_EQ(town.gathers[rank]->most_bytes(), 16 * sizeof(float));
  }
  EXPECT_EQ(town.gathers[0]->sent_bytes(), 8 * sizeof(std::uint16_t));
  EXPECT_EQ(town.gathers[1]->sent_bytes(), 4 * sizeof(std::uint16_t) + 4 * sizeof(float));
}

// As long as one user is in a block, no other gets further than the next.
TEST(WeightGathers, WaitForTheLastUser) {
  Town town(3);
  const std::vector<std::int32_t> two = {2}, none = {0};
  ASSERT_TRUE(town.gathers[0]->begin(uses_of_step(two, 3)));
  ASSERT_TRUE(town.gathers[1]->begin(uses_of_step(none, 3)));
  std::atomic<std::size_t> reached{0};
  std::jthread fast([&] {
    for (std::size_t use = 0; use < 6; ++use) {
      ASSERT_TRUE(town.gathers[0]->enter(use));
      reached = use;
      town.gathers[0]->leave(use);
    }
  });
  ASSERT_TRUE(town.gathers[0]->enter(0));
  while (reached < 1) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reached, 1u);
  EXPECT_EQ(town.sum(0, 0), 16.0f);
  for (std::size_t use = 0; use < 6; ++use) town.gathers[0]->leave(use);
  fast.join();
  for (const auto& gathers : town.gathers) EXPECT_TRUE(gathers->finish());
}

TEST(WeightGathers, TellWhoeverWaitsOfAFailure) {
  Town town(3);
  const std::vector<std::int32_t> one = {1};
  ASSERT_TRUE(town.gathers[0]->begin(uses_of_step(one, 3)));  // the other one never does
  std::jthread lane([&] {
    const Status entered = town.gathers[0]->enter(0);
    ASSERT_FALSE(entered);
    EXPECT_EQ(entered.error().message, "over");
  });
  town.gathers[0]->give_up(fail(ErrorCode::kCancelled, "over"));
  lane.join();
  EXPECT_FALSE(town.gathers[0]->finish());
  EXPECT_FALSE(town.gathers[0]->begin(uses_of_step(one, 3)));
}

}  // namespace
}  // namespace muster::parallel
