#include "muster/train/cadence.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster::train {
namespace {

using job::Interval;

constexpr TrainingLength kLength{.total_steps = 10, .steps_per_epoch = 4};

std::vector<std::int64_t> steps_due(const Interval& interval) {
  const Cadence cadence(interval, kLength, TimePoint{});
  std::vector<std::int64_t> due;
  for (std::int64_t step = 1; step <= kLength.total_steps; ++step)
    if (cadence.due(Step{step})) due.push_back(step);
  return due;
}

using Steps = std::vector<std::int64_t>;

TEST(Cadence, CountsStepsAndTakesTheLastOne) {
  EXPECT_EQ(steps_due(Interval::of_steps(3)), (Steps{3, 6, 9, 10}));
  EXPECT_EQ(steps_due(Interval::of_steps(100)), Steps{10});
  EXPECT_EQ(steps_due(Interval::of_epochs(1)), (Steps{4, 8, 10}));
  EXPECT_EQ(steps_due(Interval::of_epochs(0.01)), (Steps{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(steps_due(Interval::of_fraction(0.5)), (Steps{5, 10}));
  EXPECT_EQ(steps_due(Interval::end()), Steps{10});
  EXPECT_EQ(steps_due(Interval::of_time(std::chrono::seconds(5))), Steps{10});
  EXPECT_EQ(steps_due(Interval::never()), Steps{});
}

TEST(Cadence, FollowsTheClockWhereItIsToldATime) {
  const TimePoint start{std::chrono::seconds(100)};
  Cadence cadence(Interval::of_time(std::chrono::seconds(5)), kLength, start);
  EXPECT_FALSE(cadence.clock_due(start + std::chrono::seconds(4)));
  EXPECT_TRUE(cadence.clock_due(start + std::chrono::seconds(5)));
  cadence.restart(start + std::chrono::seconds(7));
  EXPECT_FALSE(cadence.clock_due(start + std::chrono::seconds(11)));
  EXPECT_TRUE(cadence.clock_due(start + std::chrono::seconds(12)));
  const Cadence counted(Interval::of_steps(1), kLength, start);
  EXPECT_FALSE(counted.clock_due(start + std::chrono::seconds(1000)));
}

}  // namespace
}  // namespace muster::train
