#include "muster/train/reunion.h"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

using Parts = std::vector<std::int32_t>;
using Ranks = std::vector<Rank>;

Standing standing_at(std::int64_t committed, std::int64_t rollbacks = 0) {
  Standing standing;
  standing.committed = Step{committed};
  standing.rollbacks = rollbacks;
  return standing;
}

Standing unsettled(std::int64_t committed) {
  Standing standing = standing_at(committed);
  standing.settled = false;
  return standing;
}

// Of a newcomer, or of one whose update was broken off.
Standing without(std::int64_t committed = 0) {
  Standing standing = standing_at(committed);
  standing.whole = false;
  return standing;
}

const Parts kAllTheirOwn{0, 1, 2};
const Parts kTwoReplicas{0, 1, 0, 1};
const Parts kAllAlike{0, 0, 0};

TEST(Reunion, WhereNobodyIsMissingAllGoOn) {
  const Reunion reunion =
      decide_reunion({standing_at(5), standing_at(5), standing_at(5)}, kAllTheirOwn);
  EXPECT_FALSE(reunion.goes_back());
  EXPECT_TRUE(reunion.same);
  EXPECT_EQ(reunion.sources, (Ranks{Rank{0}, Rank{1}, Rank{2}}));
}

TEST(Reunion, WhatOneHeldAloneIsLost) {
  const Reunion reunion = decide_reunion({standing_at(5), without(), standing_at(5)}, kAllTheirOwn);
  EXPECT_EQ(reunion.missing, Ranks{Rank{1}});
  EXPECT_EQ(reunion.furthest, Step{5});
}

TEST(Reunion, AReplicaGivesWhatItHolds) {
  const Reunion reunion =
      decide_reunion({without(), standing_at(5), standing_at(5), standing_at(5)}, kTwoReplicas);
  EXPECT_FALSE(reunion.goes_back());
  EXPECT_FALSE(reunion.same);
  EXPECT_EQ(reunion.sources, (Ranks{Rank{2}, Rank{1}, Rank{2}, Rank{3}}));
  EXPECT_EQ(reunion.leader, Rank{1});
}

TEST(Reunion, WhereBothWhoHeldAPartAreGoneAllGoBack) {
  const Reunion reunion =
      decide_reunion({standing_at(5), without(), standing_at(5), without(5)}, kTwoReplicas);
  EXPECT_EQ(reunion.missing, (Ranks{Rank{1}, Rank{3}}));
}

// The last step of which all parts are with somebody: ranks 0 and 3 had applied one more.
TEST(Reunion, TheLatestStepCountsOfWhichEveryPartIsThere) {
  const Reunion ahead = decide_reunion(
      {standing_at(6), standing_at(5), standing_at(5), standing_at(6)}, kTwoReplicas);
  EXPECT_EQ(ahead.sources, (Ranks{Rank{0}, Rank{3}, Rank{0}, Rank{3}}));
  EXPECT_EQ(ahead.leader, Rank{0});
  const Reunion behind =
      decide_reunion({standing_at(6), standing_at(5), standing_at(5), without()}, kTwoReplicas);
  EXPECT_EQ(behind.sources, (Ranks{Rank{2}, Rank{1}, Rank{2}, Rank{1}}));
  EXPECT_EQ(behind.furthest, Step{6});
  const Reunion torn =
      decide_reunion({standing_at(6), standing_at(5), without(5), standing_at(5)}, kTwoReplicas);
  EXPECT_EQ(torn.missing, (Ranks{Rank{1}, Rank{3}})) << "of step 6; of step 5 it is the others";
}

TEST(Reunion, ShardsOfDifferentStepsAreOfNoUse) {
  EXPECT_TRUE(
      decide_reunion({standing_at(6), standing_at(5), standing_at(5)}, kAllTheirOwn).goes_back());
  EXPECT_TRUE(
      decide_reunion({standing_at(5), without(5), standing_at(5)}, kAllTheirOwn).goes_back());
}

TEST(Reunion, WhereAllHoldAllOneIsEnough) {
  const Reunion reunion = decide_reunion({without(), standing_at(5), standing_at(6)}, kAllAlike);
  EXPECT_EQ(reunion.sources, (Ranks{Rank{2}, Rank{2}, Rank{2}}));
  EXPECT_EQ(reunion.leader, Rank{2});
  EXPECT_TRUE(decide_reunion({without(), without(), without()}, kAllAlike).goes_back());
}

Standing keeping(std::int64_t committed) {
  Standing standing = standing_at(committed);
  standing.keeps = true;
  return standing;
}

TEST(Reunion, ANeighbourGivesBackWhatItHasKept) {
  const Reunion reunion = decide_reunion({keeping(5), without(), keeping(5)}, kAllTheirOwn);
  EXPECT_FALSE(reunion.goes_back());
  EXPECT_EQ(reunion.sources, (Ranks{Rank{0}, Rank{2}, Rank{2}}));
  EXPECT_EQ(reunion.restored, Ranks{Rank{1}});
  const Reunion last = decide_reunion({keeping(5), keeping(5), without()}, kAllTheirOwn);
  EXPECT_EQ(last.sources, (Ranks{Rank{0}, Rank{1}, Rank{0}})) << "the last one's is the first";
}

TEST(Reunion, TwoNeighboursWhoDieAtOnceTakeTheCopyWithThem) {
  const Reunion reunion = decide_reunion({keeping(5), without(), without()}, kAllTheirOwn);
  EXPECT_EQ(reunion.missing, Ranks{Rank{1}}) << "the copy of rank 1 was with rank 2";
  const Reunion apart =
      decide_reunion({without(), keeping(5), without(), keeping(5)}, Parts{0, 1, 2, 3});
  EXPECT_EQ(apart.restored, (Ranks{Rank{0}, Rank{2}}));
}

TEST(Reunion, ACopyOfAnotherStepOrOneThatBrokeOffIsNone) {
  EXPECT_TRUE(decide_reunion({keeping(5), without(), standing_at(5)}, kAllTheirOwn).goes_back());
  EXPECT_TRUE(decide_reunion({standing_at(5), without(), keeping(6)}, kAllTheirOwn).goes_back());
}

TEST(Reunion, AReplicaComesBeforeACopy) {
  const Reunion reunion =
      decide_reunion({without(), keeping(5), keeping(5), keeping(5)}, kTwoReplicas);
  EXPECT_EQ(reunion.sources[0], Rank{2});
  EXPECT_TRUE(reunion.restored.empty());
}

// What is due after the step is done by those only who have settled it.
TEST(Reunion, WhoHasSettledTheStepLeads) {
  const Reunion reunion =
      decide_reunion({unsettled(5), standing_at(5), unsettled(5)}, kAllTheirOwn);
  EXPECT_EQ(reunion.leader, Rank{1});
  EXPECT_FALSE(reunion.same);
  EXPECT_EQ(reunion.sources, (Ranks{Rank{0}, Rank{1}, Rank{2}}));
}

TEST(Reunion, WhoHasEvaluatedLeads) {
  Standing ahead = unsettled(5);
  ahead.evaluated = true;
  const Reunion reunion = decide_reunion({unsettled(5), ahead, unsettled(5)}, kAllTheirOwn);
  EXPECT_EQ(reunion.leader, Rank{1});
  EXPECT_FALSE(reunion.same);
}

// One died while all went back: some are where they go, the others still where they came from.
TEST(Reunion, WhoWentBackDoesNotMeetWhoDidNot) {
  const Reunion reunion =
      decide_reunion({standing_at(2, 1), standing_at(5), standing_at(2, 1)}, kAllTheirOwn);
  EXPECT_EQ(reunion.missing, Ranks{Rank{1}});
  EXPECT_EQ(reunion.rollbacks, 1);
  EXPECT_EQ(reunion.furthest, Step{5});
  const Reunion replicas = decide_reunion(
      {standing_at(2, 1), standing_at(5), standing_at(5), standing_at(2, 1)}, kTwoReplicas);
  EXPECT_EQ(replicas.sources, (Ranks{Rank{0}, Rank{3}, Rank{0}, Rank{3}}));
}

TEST(Reunion, PacesThatDifferAreTheLeaders) {
  Standing other = standing_at(5);
  other.paces = 3;
  EXPECT_FALSE(decide_reunion({standing_at(5), other, standing_at(5)}, kAllTheirOwn).same);
}

TEST(Reunion, WhoWaitedLongestSaysHowLongItTook) {
  Standing waited = standing_at(5);
  waited.idle = Duration(7);
  EXPECT_EQ(decide_reunion({without(), waited, standing_at(5)}, kAllTheirOwn).idle, Duration(7));
}

TEST(Reunion, NamesWhoHeldWhatIsLost) {
  EXPECT_EQ(name_holders({{Rank{2}, 2}}, false), "worker 2");
  EXPECT_EQ(name_holders({{Rank{1}, 1}, {Rank{2}, 4}}, false), "workers 1, 4");
}

TEST(Reunion, NamesTheRankThatAStandbyHasTaken) {
  EXPECT_EQ(name_holders({{Rank{1}, 2}}, true), "rank 1 (now worker 2, a standby)");
  EXPECT_EQ(name_holders({{Rank{0}, 0}, {Rank{1}, 3}}, true),
            "ranks 0 (now worker 0), 1 (now worker 3, a standby)");
}

}  // namespace
}  // namespace muster::train
