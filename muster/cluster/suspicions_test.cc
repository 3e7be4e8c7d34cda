#include "muster/cluster/suspicions.h"

#include <gtest/gtest.h>

namespace muster::cluster {
namespace {

using std::chrono::seconds;

class SuspicionsTest : public ::testing::Test {
 protected:
  SuspicionsTest() { suspicions_.on_generation(now_); }

  // What the complaints of one generation lead to.
  std::optional<std::int32_t> complain(
      const std::vector<std::pair<std::int32_t, std::optional<std::int32_t>>>& complaints) {
    for (const auto& [accuser, accused] : complaints) suspicions_.accuse(accuser, accused, now_);
    EXPECT_EQ(suspicions_.due(), now_ + seconds(1));
    const auto ruling = suspicions_.rule(members_);
    now_ += seconds(2);
    suspicions_.on_generation(now_);
    EXPECT_EQ(suspicions_.due(), TimePoint::max());
    return ruling;
  }

  TimePoint now_{seconds(100)};
  Suspicions suspicions_{seconds(1), seconds(30)};
  const std::vector<std::int32_t> members_{4, 0, 1, 3};
};

TEST_F(SuspicionsTest, NobodyIsSentAwayAtTheFirstComplaint) {
  EXPECT_EQ(suspicions_.due(), TimePoint::max());
  EXPECT_EQ(complain({{0, 1}, {1, 0}, {3, 1}}), std::nullopt);
}

TEST_F(SuspicionsTest, ThenTheMostAccusedGoes) {
  complain({{0, 1}});
  EXPECT_EQ(complain({{0, 4}, {1, 4}, {3, 4}, {4, 0}}), 4);
}

TEST_F(SuspicionsTest, OfTwoThatAccuseEachOtherTheLaterOneGoes) {
  complain({{0, 1}});
  EXPECT_EQ(complain({{0, 4}, {4, 0}, {1, std::nullopt}}), 0);
}

TEST_F(SuspicionsTest, NobodyAccusesHimselfOrAStranger) {
  complain({{0, 1}});
  EXPECT_EQ(complain({{0, 0}, {1, 9}, {3, std::nullopt}}), std::nullopt);
}

// That members could not connect is known late, and is no sign that their generation was sound.
TEST_F(SuspicionsTest, AComplaintThatComesLateButNotAfterTheCalmIsTheSecond) {
  complain({{0, 1}});
  now_ += seconds(28);
  EXPECT_EQ(complain({{0, 1}}), 1);
}

TEST_F(SuspicionsTest, AfterALongCalmLinksMayHealAgain) {
  complain({{0, 1}});
  now_ += seconds(31);
  EXPECT_EQ(complain({{0, 1}}), std::nullopt);
  EXPECT_EQ(complain({{0, 1}}), 1);
}

TEST_F(SuspicionsTest, AfterAllWereStoppedNobodyIsSentAwayAtTheFirstComplaint) {
  complain({{0, 1}});
  suspicions_.excuse();
  EXPECT_EQ(complain({{0, 1}}), std::nullopt);
  EXPECT_EQ(complain({{0, 1}}), 1);
}

}  // namespace
}  // namespace muster::cluster
