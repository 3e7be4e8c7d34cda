#include "muster/data/roll_call.h"

#include <gtest/gtest.h>

#include <set>

namespace muster::data {
namespace {

RollLimbs sum_of(const std::vector<std::uint64_t>& marks) {
  RollLimbs sum{};
  for (const std::uint64_t mark : marks) {
    const RollLimbs limbs = limbs_of(mark);
    for (std::size_t i = 0; i < kRollLimbs; ++i) sum[i] += limbs[i];
  }
  return sum;
}

TEST(RollCall, LimbsAddUpExactlyForTheMostSlices) {
  const std::vector<std::uint64_t> marks(65536, (1ULL << 48U) - 1);
  EXPECT_EQ(total_of(sum_of(marks)), 65536 * ((1ULL << 48U) - 1));
}

TEST(RollCall, AnythingButEverySliceOnceIsNoticed) {
  const StepPlan plan({.epoch_size = 1000, .batch = 70, .slices = 8});
  const Cursor cursor{3, 140, 3140};
  std::vector<std::uint64_t> marks;
  for (std::int32_t i = 0; i < 8; ++i)
    marks.push_back(slice_mark(3, SliceIndex{i}, plan.slice(plan.step(cursor), SliceIndex{i})));
  const std::uint64_t roll = roll_of(plan, cursor);
  EXPECT_EQ(total_of(sum_of(marks)), roll);
  for (std::size_t i = 0; i < marks.size(); ++i) {
    for (std::size_t j = 0; j <= marks.size(); ++j) {  // slice i lost, or another in its place
      if (i == j) continue;
      auto wrong = marks;
      wrong[i] = j < marks.size() ? marks[j] : 0;
      EXPECT_NE(total_of(sum_of(wrong)), roll) << i << " " << j;
    }
  }
}

TEST(RollCall, MarksDependOnEpochSliceAndPositions) {
  std::set<std::uint64_t> marks;
  for (const std::int64_t epoch : {0, 1})
    for (const std::int32_t slice : {0, 1})
      for (const Share positions : {Share{0, 4}, Share{0, 5}, Share{4, 8}})
        marks.insert(slice_mark(epoch, SliceIndex{slice}, positions));
  EXPECT_EQ(marks.size(), 12U);
}

}  // namespace
}  // namespace muster::data
