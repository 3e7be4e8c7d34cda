#include "muster/cluster/silence.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster::cluster
