#include "muster/data/step_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "muster/base/check.h"

namespace muster::data {
namespace {

TEST(StepPlan, TakesTheRestOfAnEpochAsAShortBatch) {
  const StepPlan plan({10, 4, 2});
  const Cursor start;
  const Cursor second = plan.after(start);
  const Cursor third = plan.after(second);
  EXPECT_EQ(plan.step(start), (Share{0, 4}));
  EXPECT_EQ(plan.step(second), (Share{4, 8}));
  EXPECT_EQ(plan.step(third), (Share{8, 10}));
  EXPECT_EQ(plan.after(third), (Cursor{1, 0, 10}));
  EXPECT_EQ(plan.steps_per_epoch(), 3);
  EXPECT_EQ(plan.steps_left_in_epoch(third), 1);
}

TEST(StepPlan, GoesOnFromAPositionOfAnotherBatchSize) {
  const StepPlan plan({10, 4, 2});
  const Cursor odd{3, 7, 37};
  EXPECT_EQ(plan.step(odd), (Share{7, 10}));
  EXPECT_EQ(plan.after(odd), (Cursor{4, 0, 40}));
}

TEST(StepPlan, GivesSlicesBeyondTheSamplesNothing) {
  const StepPlan plan({3, 8, 4});
  const Share step = plan.step(Cursor{});
  EXPECT_EQ(plan.slice(step, SliceIndex{0}), (Share{0, 1}));
  EXPECT_EQ(plan.slice(step, SliceIndex{2}), (Share{2, 3}));
  EXPECT_EQ(plan.slice(step, SliceIndex{3}).size(), 0);
}

TEST(StepPlan, SlicesTileEveryStepAndStepsTileEveryEpoch) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(1, 2000);
    const auto batch = *rc::gen::inRange<std::int64_t>(1, 300);
    const auto slices = *rc::gen::inRange<std::int32_t>(1, 40);
    const StepPlan plan({size, batch, slices});
    Cursor cursor;
    std::int64_t expected = 0;
    while (cursor.epoch == 0) {
      const Share step = plan.step(cursor);
      RC_ASSERT(step.size() >= 1);
      for (std::int32_t i = 0; i < slices; ++i) {
        const Share slice = plan.slice(step, SliceIndex{i});
        RC_ASSERT(slice.begin == expected);
        RC_ASSERT(slice.size() - step.size() / slices <= 1);
        expected = slice.end;
      }
      RC_ASSERT(expected == step.end);
      cursor = plan.after(cursor);
    }
    RC_ASSERT(expected == size);
    RC_ASSERT(cursor == (Cursor{1, 0, size}));
  }));
}

TEST(StepPlan, FindsAnyStepAtOnce) {
  EXPECT_TRUE(rc::check([] {
    const auto size = *rc::gen::inRange<std::int64_t>(1, 200);
    const auto batch = *rc::gen::inRange<std::int64_t>(1, 60);
    const auto steps = *rc::gen::inRange<std::int64_t>(0, 500);
    const StepPlan plan({size, batch, 1});
    Cursor cursor;
    for (std::int64_t i = 0; i < steps; ++i) cursor = plan.after(cursor);
    RC_ASSERT(plan.at(Step{steps}) == cursor);
  }));
}

TEST(StepPlan, RefusesWhatCannotBeCut) {
  EXPECT_THROW(StepPlan({0, 1, 1}), LogicFault);
  EXPECT_THROW(StepPlan({1, 0, 1}), LogicFault);
  EXPECT_THROW(StepPlan({1, 1, 0}), LogicFault);
}

}  // namespace
}  // namespace muster::data
