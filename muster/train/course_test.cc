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
  EXPECT_EQ(decide_course({at(5, 6), at(5, 6), at(5, 6)}).value(), (Course{.finishes = true}));
}

TEST(Course, WhoHasAppliedTheStepLeads) {
  EXPECT_EQ(decide_course({at(5, 6), at(6), at(6)}).value(),
            (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, WhoHasSettledTheStepLeads) {
  Standing behind = at(6);
  behind.settled = false;
  EXPECT_EQ(decide_course({behind, at(6)}).value(), (Course{.leader = Rank{1}, .copies = true}));
}

// Else some would evaluate while others, which have the result, go on to the checkpoint.
TEST(Course, WhoHasEvaluatedLeads) {
  for (const bool settled : {false, true}) {  // true: at the end of the training
    Standing behind = at(6);
    behind.settled = settled;
    Standing ahead = behind;
    ahead.evaluated = true;
    EXPECT_EQ(decide_course({behind, ahead, behind}).value(),
              (Course{.leader = Rank{1}, .copies = true}));
    EXPECT_EQ(decide_course({ahead, ahead}).value(), Course{});
  }
}

TEST(Course, ANewcomerGetsTheStateHoweverFarItClaimsToBe) {
  Standing newcomer = at(9);
  newcomer.whole = false;
  EXPECT_EQ(decide_course({newcomer, at(6, 7)}).value(),
            (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, NewcomersWhoComeLastGetTheStateBesideTheTraining) {
  Standing newcomer = at(0);
  newcomer.whole = false;
  newcomer.paces = 3;
  EXPECT_EQ(decide_course({at(6), at(6), newcomer}).value(), (Course{.newcomers = 1}));
  EXPECT_EQ(decide_course({at(6), newcomer, newcomer}).value(), (Course{.newcomers = 2}));
  // Those from before may have begun the next step: with newcomers it is computed again.
  EXPECT_EQ(decide_course({at(6, 7), at(6, 7), newcomer}).value(), (Course{.newcomers = 1}));
}

TEST(Course, WhereOthersHaveToCopyNewcomersCopyWithThem) {
  Standing torn = at(6);
  torn.whole = false;
  EXPECT_EQ(decide_course({at(6), at(5), torn}).value(), (Course{.copies = true}));
  EXPECT_EQ(decide_course({at(6), torn, at(6)}).value(), (Course{.copies = true}));
}

TEST(Course, SumsOfAnotherStepOrAnotherAssignmentAreOfNoUse) {
  EXPECT_EQ(decide_course({at(5, 6), at(5)}).value(), Course{});
  EXPECT_EQ(decide_course({at(5, 6), at(5, 5)}).value(), Course{});
  Standing other = at(5, 6);
  other.assignment = 8;
  EXPECT_EQ(decide_course({at(5, 6), other}).value(), Course{});
}

TEST(Course, WhoWentBackLeadsHoweverFarTheOthersAre) {
  Standing back = at(5);
  back.rollbacks = 1;
  EXPECT_EQ(decide_course({at(9), back}).value(), (Course{.leader = Rank{1}, .copies = true}));
}

TEST(Course, PacesThatNotAllKnowAreForgottenUnlessTheLeadersAreCopied) {
  Standing other = at(5);
  other.paces = 3;
  EXPECT_EQ(decide_course({at(5), other}).value(), (Course{.forgets = true}));
  EXPECT_EQ(decide_course({at(6), other}).value(), (Course{.copies = true}));
  EXPECT_EQ(decide_course({other, other}).value(), Course{});
}

TEST(Course, WithoutAWholeStateItSaysWhatToDo) {
  Standing broken = at(5);
  broken.whole = false;
  const auto course = decide_course({broken, broken});
  ASSERT_FALSE(course);
  EXPECT_EQ(course.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(course.error().message.find("--resume"), std::string::npos);
}

TEST(Course, StandingsTravelWhole) {
  for (Standing standing :
       {at(5, 6), at(5),
        Standing{Step{1}, false, false, Step{2}, ~0ULL, ~1ULL, 3, Duration(9), true}}) {
    EXPECT_EQ(Standing::unpack(standing.pack().data()), standing);
  }
}

}  // namespace
}  // namespace muster::train
