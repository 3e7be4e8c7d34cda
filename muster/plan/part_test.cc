#include "muster/plan/part.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/plan/testing/ways.h"

namespace muster::plan {
namespace {

using testing::blocks_alike;
using testing::pipeline;
using testing::price;
using testing::way;

// A profile of blocks whose only gradients are of so many bytes, which backward has in hand.
ModelProfile with_gradients(std::uint64_t bytes) {
  ModelProfile profile = blocks_alike(4);
  for (BlockProfile& block : profile.blocks)
    block.trained = {static_cast<std::int64_t>(bytes / kFloat)};
  for (BlockPass& pass : profile.passes.front().blocks) pass.backward_bytes = bytes;
  return profile;
}
constexpr std::uint64_t kSmall = 5'000, kLarge = kMappedBytes;

// Of each lane's backward, and of the pass whose operations are counted, where a heap keeps it;
// one gradient more is what a heap may have to grow by again.
TEST(EstimatedMemory, BackwardHasGradientsInHand) {
  const std::uint64_t kept = 4 * testing::kActivationBytes;
  Way lanes = way(1);
  lanes.lanes = 2;
  EXPECT_EQ(price(lanes, with_gradients(kSmall)).memory.activations,
            2 * (kept + 2 * kSmall) + kSmall);
  EXPECT_EQ(price(lanes, with_gradients(kLarge)).memory.activations, 2 * (kept + kLarge));
  EXPECT_EQ(price(pipeline(4, 4), with_gradients(kSmall)).memory.activations,
            kept + 2 * kSmall + kSmall);
  EXPECT_EQ(price(pipeline(4, 4), with_gradients(kLarge)).memory.activations, kept + kLarge);
}

// All gradients of a block together are there while it is counted, whoever trains it.
TEST(EstimatedMemory, CountingHoldsTheGradientsOfABlock) {
  ModelProfile profile = with_gradients(kSmall);
  profile.blocks[3].trained = {kSmall / kFloat, 1'000, 500};
  const std::uint64_t others = 1'500 * kFloat;
  EXPECT_EQ(price(way(1), profile).memory.activations,
            price(way(1), with_gradients(kSmall)).memory.activations + others);
  EXPECT_GT(price(pipeline(4, 4), profile).memory.activations,
            4 * testing::kActivationBytes + kSmall + others);
}

// What was mapped is back with the kernel when the last save begins. One in between leaves its copy
// beside the steps that follow.
TEST(EstimatedMemory, ALastSaveTakesWhatBackwardHasGivenBack) {
  for (const std::uint64_t gradient : {kSmall, kLarge}) {
    const ModelProfile profile = with_gradients(gradient);
    const auto total = [&](Saves saves) {
      Way one = way(1);
      one.saves = saves;
      return price(one, profile).memory.total();
    };
    const std::uint64_t state = profile.state_bytes();
    const std::uint64_t given_back = gradient == kLarge ? gradient : 0;
    EXPECT_EQ(total(Saves::kBeside), total(Saves::kNever) + state);
    EXPECT_EQ(total(Saves::kAtEnd), total(Saves::kNever) + state - std::min(given_back, state));
  }
}

}  // namespace
}  // namespace muster::plan
