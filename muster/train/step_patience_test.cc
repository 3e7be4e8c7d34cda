#include "muster/train/step_patience.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

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
      seconds(2));
}

TEST(StepPatience, StaysBetweenSomeSecondsAndTheLimit) {
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(kMost), seconds(2));
  EXPECT_EQ(after({{50, seconds(4)}}).limit(kMost), kMost);
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(seconds(1)), seconds(1));
}

TEST(StepPatience, GrowsWithALimitThatIsRaised) {
  EXPECT_EQ(after({{50, milliseconds(1)}}).limit(minutes(5)), seconds(20));
}

TEST(StepPatience, GivesStepsAfterADisturbanceAllTheTimeThereIs) {
  StepPatience patience = after({{50, milliseconds(100)}});
  patience.disturb();
  EXPECT_EQ(patience.limit(kMost), kMost);
  patience.took(seconds(8));
  EXPECT_EQ(patience.limit(kMost), kMost);
  patience.took(seconds(8));
  EXPECT_EQ(patience.limit(kMost), seconds(2)) << "and learns nothing from them";
}

TEST(StepPatience, AfterSomeStepsOfANewGenerationItKnowsWhatItKnew) {
  StepPatience patience = after({{50, milliseconds(100)}, {1, milliseconds(200)}});
  patience.begin_generation();
  for (int step = 0; step < 5; ++step) {
    EXPECT_EQ(patience.limit(kMost), kMost);
    patience.took(milliseconds(100));
  }
  EXPECT_LT(patience.limit(kMost), seconds(4));
  EXPECT_GT(patience.limit(kMost), seconds(3)) << "the longest of before";
}

// On a machine with so many processes that want to run for each core they take turns of some
// milliseconds, in any order; a step is over when the slowest of four workers is.
Duration loaded(Duration alone, int processes, std::mt19937& draw) {
  constexpr Duration kTurn = milliseconds(4);
  std::uniform_int_distribution<int> others(0, 2 * (processes - 1));
  Duration longest{0};
  for (int worker = 0; worker < 4; ++worker) {
    Duration took{0};
    for (Duration done{0}; done < alone; done += kTurn) took += kTurn * (1 + others(draw));
    longest = std::max(longest, took);
  }
  return longest;
}

TEST(StepPatience, TakesNobodyForStuckOnALoadedMachineAndWhoHangsSoon) {
  constexpr Duration kExplained = seconds(1);  // see cluster/suspicions.h
  for (const Duration alone : {milliseconds(5), milliseconds(20), milliseconds(100)}) {
    std::mt19937 draw(7);
    StepPatience patience;
    for (int load : {1, 10, 1, 10, 3}) {
      for (int step = 0; step < 400; ++step) {
        const Duration took = loaded(alone, load, draw);
        ASSERT_LT(took, patience.limit(kMost)) << "load " << load << ", step " << step;
        patience.took(took);
      }
      // It is waited for in a step, and once more when all come together.
      if (load > 1) continue;
      EXPECT_LE(2 * (patience.limit(kMost) + kExplained), seconds(7));
    }
  }
}

}  // namespace
}  // namespace muster::train
