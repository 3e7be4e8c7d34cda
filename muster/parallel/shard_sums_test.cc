#include "muster/parallel/shard_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "muster/base/random.h"
#include "muster/layout/shard_turns.h"
#include "muster/parallel/testing/tree_sums.h"

namespace muster::parallel {
namespace {

const std::vector<std::int64_t> kSizes = {0, 5, 40, 0, 33};

std::vector<float> pass_gradient(std::int32_t unit, std::size_t bucket, std::int32_t pass) {
  return random_gradient(unit, bucket * 10 + static_cast<std::uint64_t>(pass), kSizes[bucket]);
}

std::int32_t pass_count(std::int32_t unit) { return unit % 4 == 1 ? 3 : 1; }

std::vector<float> unit_gradient(std::int32_t unit, std::size_t bucket) {
  std::vector<float> sum = pass_gradient(unit, bucket, 0);
  for (std::int32_t pass = 1; pass < pass_count(unit); ++pass)
    sum = plus(std::move(sum), pass_gradient(unit, bucket, pass));
  return sum;
}

void add_all(ShardSums& sums, std::int32_t units, std::uint64_t order) {
  std::vector<std::int32_t> sequence(static_cast<std::size_t>(units));
  std::iota(sequence.begin(), sequence.end(), 0);
  const RandomStream random(order, "order");
  if (order > 0)
    for (std::size_t i = sequence.size(); i > 1; --i)
      std::swap(sequence[i - 1], sequence[random.below(i, i)]);
  for (const std::int32_t unit : sequence)
    for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket)
      for (std::int32_t pass = 0; pass < pass_count(unit); ++pass)
        sums.add(unit, bucket, pass_gradient(unit, bucket, pass), pass, pass_count(unit));
}

TEST(ShardSums, AreThoseOfTheTreeInWhateverOrderUnitsCome) {
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int32_t units : {1, 2, 3, 5, 8, 13}) {
      ShardSums sums({{0, units}}, kSizes, std::vector<DType>(kSizes.size(), dtype));
      for (std::uint64_t order = 0; order < 5; ++order) {
        sums.begin();
        add_all(sums, units, order);
        for (std::size_t bucket = 0; bucket < kSizes.size(); ++bucket) {
          const auto sum = sums.sum(bucket);
          const auto expected = naive_sum(
              {0, units}, dtype, [&](std::int32_t unit) { return unit_gradient(unit, bucket); });
          EXPECT_EQ(std::vector<float>(sum.begin(), sum.end()), expected)
              << units << " units, order " << order << ", bucket " << bucket;
        }
      }
    }
}

TEST(ShardTurns, AreOfUnitsThatAreComputedTogether) {
  const std::vector<std::int64_t> passes = {1, 2, 1, 1, 1};
  const auto turns = layout::plan_turns(comm::owners_in_turns({3, 2}), 1, passes);
  EXPECT_EQ(turns, (std::vector<layout::ShardTurn>{{0, {0, 1}}, {1, {1}}, {0, {2, 3}}, {0, {4}}}));
  EXPECT_EQ(layout::plan_turns(comm::owners_by_count({3, 2}), 2, passes),
            (std::vector<layout::ShardTurn>{{0, {0, 1, 3, 4}}, {1, {1}}, {0, {2}}}));
}

TEST(ShardTurns, SumsAreAsManyAsOnesInBinary) {
  EXPECT_EQ(layout::sums_held(8, 8), 1);
  EXPECT_EQ(layout::sums_held(8, 4), 1);
  EXPECT_EQ(layout::sums_held(8, 2), 2);
  EXPECT_EQ(layout::sums_held(8, 3), 2);
  EXPECT_EQ(layout::sums_held(8, 1), 3);
  EXPECT_EQ(layout::sums_held(1, 1), 1);
}

}  // namespace
}  // namespace muster::parallel
