#include "muster/cluster/silence.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kMost = seconds(10);

Silence after(std::initializer_list<std::pair<int, Duration>> beats) {
  Silence silence;
  TimePoint now{seconds(100)};
  for (const auto& [count, gap] : beats) {
    for (int i = 0; i < count; ++i) silence.heard(now += gap);
  }
  return silence;
}

TEST(Silence, WaitsAsLongAsItMayUntilItHasHeardEnough) {
  EXPECT_EQ(after({{19, milliseconds(200)}}).patience(kMost), kMost);
  EXPECT_EQ(after({{20, milliseconds(200)}}).patience(kMost), seconds(1));
}

TEST(Silence, GivesAnUnevenOneLonger) {
  EXPECT_EQ(after({{50, milliseconds(200)}, {1, milliseconds(900)}}).patience(kMost),
            milliseconds(4500));
  EXPECT_EQ(after({{50, seconds(4)}}).patience(kMost), kMost) << "never more than it may";
}

TEST(Silence, ForgetsAHiccup) {
  const Silence silence =
      after({{50, milliseconds(200)}, {1, milliseconds(900)}, {300, milliseconds(200)}});
  EXPECT_EQ(silence.patience(kMost), seconds(1));
}

TEST(Silence, NeverFallsBelowASecondOrAboveTheLimit) {
  EXPECT_EQ(after({{50, milliseconds(1)}}).patience(kMost), seconds(1));
  EXPECT_EQ(after({{50, milliseconds(200)}}).patience(milliseconds(300)), milliseconds(300));
}

TEST(Silence, IsPatientWhereMuchIsAllowed) {
  EXPECT_EQ(after({{50, milliseconds(200)}}).patience(seconds(60)), seconds(6));
}

// With ten processes that want to run for each core a beat waits for its turn several times on its
// way: in the worker, its kernel and the coordinator.
TEST(Silence, IsNotWhatALoadedMachineMakes) {
  std::mt19937 draw(7);
  std::uniform_int_distribution<int> others(0, 2 * 9);  // before it, in turns of 4 ms
  Silence silence;
  TimePoint now{seconds(100)};
  for (int beat = 0; beat < 1000; ++beat) {
    now += milliseconds(200);
    if (beat >= 100)
      for (int wait = 0; wait < 5; ++wait) now += milliseconds(4 * others(draw));
    ASSERT_TRUE(beat == 0 || now - silence.last_heard() < silence.patience(kMost)) << beat;
    silence.heard(now);
  }
  EXPECT_LT(silence.patience(kMost), seconds(4)) << "and who is silent there is missed soon";
}

}  // namespace
}  // namespace muster::cluster
