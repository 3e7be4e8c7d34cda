#include "muster/cluster/host_clocks.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

constexpr WallTime kToday{hours(490'000)};

TEST(HostClocks, AnHourApartIsToldOnceAHost) {
  HostClocks clocks;
  const auto ahead = clocks.note("node7", {kToday + hours(1)}, kToday);
  ASSERT_TRUE(ahead);
  EXPECT_NE(ahead->find("the clock of node7 is 1 h ahead of this host's"), std::string::npos)
      << *ahead;
  EXPECT_FALSE(clocks.note("node7", {kToday + hours(2)}, kToday));
  const auto behind = clocks.note("node8", {kToday - hours(1)}, kToday);
  ASSERT_TRUE(behind);
  EXPECT_NE(behind->find("node8 is 1 h behind this host's"), std::string::npos) << *behind;
}

TEST(HostClocks, UpToAMinuteIsTolerated) {
  HostClocks clocks;
  for (const seconds off : {seconds(-60), seconds(-1), seconds(0), seconds(60)})
    EXPECT_FALSE(clocks.note("node7", {kToday + off}, kToday)) << off.count();
  EXPECT_TRUE(clocks.note("node7", {kToday + seconds(61)}, kToday));
  EXPECT_TRUE(clocks.note("node8", {kToday - seconds(61)}, kToday));
}

// It was sent before it came, never after.
TEST(HostClocks, WhatTheMessageMayHaveTakenIsInItsFavour) {
  HostClocks clocks;
  EXPECT_FALSE(clocks.note("node7", {kToday - seconds(65), seconds(5)}, kToday));
  EXPECT_TRUE(clocks.note("node7", {kToday - seconds(66), seconds(5)}, kToday));
  EXPECT_TRUE(clocks.note("node8", {kToday + seconds(61), seconds(5)}, kToday));
}

TEST(HostClocks, AnyTimeCanBeTold) {
  HostClocks clocks;
  EXPECT_TRUE(clocks.note("node7", {WallTime::max(), Duration::max()}, WallTime::min()));
  EXPECT_TRUE(clocks.note("node8", {WallTime::min(), Duration::min()}, WallTime::max()));
}

}  // namespace
}  // namespace muster::cluster
