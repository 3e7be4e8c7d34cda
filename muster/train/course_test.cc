#include "muster/train/course.h"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

Standing at(std::int64_t committed, std::int64_t kept = -1) {
  Standing standing;
  standing.committed = Step{committed};
  standing.assignment = 7;
  if (kept >= 0) standing.kept = Step{kept};
  return standing;
}

TEST(Course, TheFailedStepIsFinishedWhereNobodyIsAhead) {
  EXPECT_EQ(decide_course({at(5, 6), at(5, 6), at(5, 6)}), (Course{.finishes = true}));
}

TEST(Course, WhoHasAppliedTheStepLeads) {
  EXPECT_EQ(decide_course({at(5, 6), at(6), at(6)}), (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, WhoHasSettledTheStepLeads) {
  Standing behind = at(6);
  behind.settled = false;
  EXPECT_EQ(decide_course({behind, at(6)}), (Course{.leader = Rank{1}, .copies = true}));
}

// Else some would evaluate while others, which have the result, go on to the checkpoint.
TEST(Course, WhoHasEvaluatedLeads) {
  for (const bool settled : {false, true}) {  // true: at the end of the training
    Standing behind = at(6);
    behind.settled = settled;
    Standing ahead = behind;
    ahead.evaluated = true;
    EXPECT_EQ(decide_course({behind, ahead, behind}), (Course{.leader = Rank{1}, .copies = true}));
    EXPECT_EQ(decide_course({ahead, ahead}), Course{});
  }
}

TEST(Course, ANewcomerGetsTheStateHoweverFarItClaimsToBe) {
  Standing newcomer = at(9);
  newcomer.whole = false;
  EXPECT_EQ(decide_course({newcomer, at(6, 7)}), (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, NewcomersWhoComeLastGetTheStateBesideTheTraining) {
  Standing newcomer = at(0);
  newcomer.whole = false;
  newcomer.paces = 3;
  EXPECT_EQ(decide_course({at(6), at(6), newcomer}), (Course{.newcomers = 1}));
  EXPECT_EQ(decide_course({at(6), newcomer, newcomer}), (Course{.newcomers = 2}));
  // Those from before may have begun the next step: with newcomers it is computed again.
  EXPECT_EQ(decide_course({at(6, 7), at(6, 7), newcomer}), (Course{.newcomers = 1}));
}

TEST(Course, WhereOthersHaveToCopyNewcomersCopyWithThem) {
  Standing torn = at(6);
  torn.whole = false;
  EXPECT_EQ(decide_course({at(6), at(5), torn}), (Course{.copies = true}));
  EXPECT_EQ(decide_course({at(6), torn, at(6)}), (Course{.copies = true}));
}

TEST(Course, SumsOfAnotherStepOrAnotherAssignmentAreOfNoUse) {
  EXPECT_EQ(decide_course({at(5, 6), at(5)}), Course{});
  EXPECT_EQ(decide_course({at(5, 6), at(5, 5)}), Course{});
  Standing other = at(5, 6);
  other.assignment = 8;
  EXPECT_EQ(decide_course({at(5, 6), other}), Course{});
}

TEST(Course, WhoWentBackLeadsHoweverFarTheOthersAre) {
  Standing back = at(5);
  back.rollbacks = 1;
  EXPECT_EQ(decide_course({at(9), back}), (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, PacesThatNotAllKnowAreForgottenUnlessTheLeadersAreCopied) {
  Standing other = at(5);
  other.paces = 3;
  EXPECT_EQ(decide_course({at(5), other}), (Course{.forgets = true}));
  EXPECT_EQ(decide_course({at(6), other}), (Course{.copies = true}));
  EXPECT_EQ(decide_course({other, other}), Course{});
}

TEST(Course, WhereNobodyHasAWholeStateAllGoBack) {
  Standing broken = at(5);
  broken.whole = false;
  EXPECT_EQ(decide_course({broken, broken}), (Course{.goes_back = true}));
}

TEST(Course, StandingsTravelWhole) {
  for (Standing standing : {at(5, 6), at(5),
                            Standing{Step{1}, false, false, Step{2}, ~0ULL, ~1ULL, 3, Duration(9),
                                     true, true, ~2ULL}}) {
    EXPECT_EQ(Standing::unpack(standing.pack().data()), standing);
  }
}

}  // namespace
}  // namespace muster::train
