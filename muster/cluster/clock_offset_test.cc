#include "muster/cluster/clock_offset.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

TimePoint at(std::int64_t nanoseconds) { return TimePoint(Duration(nanoseconds)); }

TEST(ClockOffset, IsUnknownUntilSomebodyAnswers) { EXPECT_EQ(ClockOffset().value(), std::nullopt); }

TEST(ClockOffset, TakesTheQuickestAnswersMiddle) {
  ClockOffset offset;
  offset.note(at(100), at(1600), at(900));  // slow: 1,100 ahead, give or take 400
  EXPECT_EQ(offset.value(), Duration(1100));
  offset.note(at(1000), at(2010), at(1020));
  EXPECT_EQ(offset.value(), Duration(1000));
  offset.note(at(2000), at(3300), at(2500));
  EXPECT_EQ(offset.value(), Duration(1000));
}

TEST(ClockOffset, ForgetsWhatIsLongAgo) {
  ClockOffset offset;
  offset.note(at(0), at(500), at(0));
  for (int i = 0; i < 32; ++i) offset.note(at(1000), at(1700), at(1200));
  EXPECT_EQ(offset.value(), Duration(600));
}

TEST(ClockOffset, IsNoneWhereBothMayReadTheSameClock) {
  ClockOffset offset;
  offset.note(at(100), at(110), at(180));
  EXPECT_EQ(offset.value(), Duration(0));
  offset.note(at(200), at(210), at(216));
  EXPECT_EQ(offset.value(), Duration(0));
  offset.note(at(300), at(309), at(310));
  EXPECT_EQ(offset.value(), Duration(0));
  offset.note(at(400), at(399), at(402));
  EXPECT_EQ(offset.value(), Duration(-2));
}

TEST(ClockOffset, MakesNothingOfAnAnswerBeforeItsQuestion) {
  ClockOffset offset;
  offset.note(at(100), at(1), at(50));
  EXPECT_EQ(offset.value(), std::nullopt);
}

}  // namespace
}  // namespace muster::cluster
