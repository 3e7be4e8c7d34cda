#include "muster/cluster/host_rests.h"

#include <gtest/gtest.h>

#include "muster/testing/fake_clock.h"

namespace muster::cluster {
namespace {

using std::chrono::minutes;

class HostRestsTest : public ::testing::Test {
 protected:
  std::optional<Duration> fail(const std::string& host) { return rests_.fail(host, clock_.now()); }
  bool is_left_alone(const std::string& host) { return rests_.is_left_alone(host, clock_.now()); }

  testing::FakeClock clock_;
  HostRests rests_{minutes(5)};
};

TEST_F(HostRestsTest, AHostThatFailsIsLeftAloneForAWhile) {
  EXPECT_EQ(fail("b"), minutes(5));
  EXPECT_TRUE(is_left_alone("b"));
  EXPECT_FALSE(is_left_alone("c"));
  clock_.advance(minutes(4));
  EXPECT_EQ(fail("b"), std::nullopt) << "of several workers there one counts";
  clock_.advance(minutes(1));
  EXPECT_FALSE(is_left_alone("b"));
  EXPECT_TRUE(rests_.is_doubtful("b"));
}

TEST_F(HostRestsTest, EachTimeTwiceAsLongButNotForEver) {
  Duration longest{0};
  for (const int expected : {5, 10, 20, 40, 60, 60}) {
    longest = fail("b").value_or(Duration{0});
    EXPECT_EQ(longest, minutes(expected));
    clock_.advance(longest);
  }
}

TEST_F(HostRestsTest, WhereAWorkerComesUpItBeginsAnew) {
  static_cast<void>(fail("b"));
  clock_.advance(minutes(5));
  static_cast<void>(fail("b"));
  rests_.come_up("b");
  EXPECT_FALSE(is_left_alone("b"));
  EXPECT_FALSE(rests_.is_doubtful("b"));
  EXPECT_EQ(fail("b"), minutes(5));
}

}  // namespace
}  // namespace muster::cluster
