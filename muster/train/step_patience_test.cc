#include "muster/train/step_patience.h"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kMost = seconds(30);

StepPatience after(std::initializer_list<std::pair<int, Duration>> steps) {
  StepPatience patience;
  for (const auto& [count, time] : steps)
    for (int i = 0; i < count; ++i) patience.took(time);
  return patience;
}

TEST(StepPatience, WaitsAsLongAsItMayUntilItHasSeenEnough) {
  EXPECT_EQ(after({{19, milliseconds(500)}}).limit(kMost), kMost);
  EXPECT_EQ(after({{20, milliseconds(500)}}).limit(kMost), seconds(10));
}

TEST(StepPatience, FollowsTheLongestRecentStepAndForgetsIt) {
  EXPECT_EQ(after({{50, milliseconds(100)}, {1, seconds(1)}}).limit(kMost), seconds(20));
  EXPECT_EQ(
      after({{50, milliseconds(100)}, {1, seconds(1)}, {300, milliseconds(100)}}).limit(kMost),
      seconds(5));
}

TEST(StepPatience, StaysBetweenSomeSecondsAndTheLimit) {
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(kMost), seconds(5));
  EXPECT_EQ(after({{50, seconds(4)}}).limit(kMost), kMost);
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(seconds(2)), seconds(2));
}

TEST(StepPatience, GrowsWithALimitThatIsRaised) {
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(minutes(5)), seconds(50));
}

TEST(StepPatience, GivesStepsAfterADisturbanceAllTheTimeThereIs) {
  StepPatience patience = after({{50, milliseconds(100)}});
  patience.disturb();
  EXPECT_EQ(patience.limit(kMost), kMost);
  patience.took(seconds(8));
  EXPECT_EQ(patience.limit(kMost), kMost);
  patience.took(seconds(8));
  EXPECT_EQ(patience.limit(kMost), seconds(5)) << "and learns nothing from them";
}

}  // namespace
}  // namespace muster::train
