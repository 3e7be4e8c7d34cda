#include "muster/parallel/slice_backup.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/comm/backend/loopback/loopback.h"

namespace muster::parallel {
namespace {

constexpr std::size_t kFloats = 5;

struct Pair {
  std::vector<std::shared_ptr<comm::Communicator>> ranks = comm::create_loopback(2, Generation{1});
  SliceBackup owner{ranks[0], kFloats, {}};
  SliceBackup helper{ranks[1], kFloats, {}};

  void open(const std::vector<std::int32_t>& units) {
    owner.open(units);
    helper.open({});
  }
  void give(const Loan& loan) {
    std::vector<float> floats(kFloats, static_cast<float>(loan.unit));
    ASSERT_TRUE(helper.give(loan, floats));
  }
  // What the owner gets for `unit`, waiting for what is under way.
  std::optional<std::vector<float>> claim_arrived(std::int32_t unit) {
    // One more question is answered after what was given before it has arrived.
    EXPECT_TRUE(helper.ask());
    return owner.claim(unit);
  }
};

void expect_nothing_left(const Result<Answers>& answers) {
  ASSERT_TRUE(answers);
  EXPECT_FALSE(answers->loan);
  EXPECT_FALSE(answers->ask_again);
}

TEST(SliceBackup, LendsTheLastSliceFirstAndNoneTwice) {
  Pair pair;
  pair.open({3, 4, 5});
  for (const std::int32_t unit : {5, 4, 3}) {
    const auto answers = pair.helper.ask();
    ASSERT_TRUE(answers && answers->loan);
    EXPECT_EQ(answers->loan->unit, unit);
    EXPECT_EQ(answers->loan->owner, Rank{0});
  }
  expect_nothing_left(pair.helper.ask());
}

TEST(SliceBackup, TheFirstResultCounts) {
  Pair pair;
  pair.open({3, 4});
  const Loan last = *pair.helper.ask()->loan;
  pair.give(last);
  EXPECT_EQ(pair.claim_arrived(4), std::vector<float>(kFloats, 4.0F));
  EXPECT_EQ(pair.owner.close(), 1);
}

TEST(SliceBackup, WhoComesToALentSliceFirstComputesItAndTheOtherIsDropped) {
  Pair pair;
  pair.open({3, 4});
  const Loan loan = *pair.helper.ask()->loan;
  EXPECT_FALSE(pair.owner.claim(loan.unit));
  pair.give(loan);
  EXPECT_FALSE(pair.claim_arrived(loan.unit));
  EXPECT_EQ(pair.owner.close(), 0);
}

TEST(SliceBackup, WhatIsBegunIsNotLent) {
  Pair pair;
  pair.open({3, 4});
  EXPECT_FALSE(pair.owner.claim(3));
  EXPECT_FALSE(pair.owner.claim(4));
  expect_nothing_left(pair.helper.ask());
}

TEST(SliceBackup, AResultOfAnEarlierStepIsDropped) {
  Pair pair;
  pair.open({3, 4});
  const Loan loan = *pair.helper.ask()->loan;
  pair.owner.close();
  pair.open({3, 4});
  pair.give(loan);
  EXPECT_FALSE(pair.claim_arrived(4));
}

TEST(SliceBackup, WhoIsAStepBehindGetsNone) {
  Pair pair;
  pair.owner.open({3, 4});
  expect_nothing_left(pair.helper.ask());
}

TEST(SliceBackup, WhoHasNotBegunTheStepIsAskedAgain) {
  Pair pair;
  pair.helper.open({});
  const auto early = pair.helper.ask();
  ASSERT_TRUE(early);
  EXPECT_FALSE(early->loan);
  EXPECT_TRUE(early->ask_again);
  pair.owner.open({3, 4});
  EXPECT_EQ(pair.helper.ask()->loan->unit, 4);
}

TEST(SliceBackup, EndsWithItsCommunicator) {
  Pair pair;
  pair.open({3, 4});
  pair.ranks[0]->abort(fail(ErrorCode::kPeerLost, "it is gone"));
  EXPECT_FALSE(pair.helper.ask());
}

// Where somebody's time was up, every later operation ends so, at once.
TEST(SliceBackup, EndsWithACommunicatorWhoseTimeWasUp) {
  Pair pair;
  pair.open({3, 4});
  pair.ranks[0]->abort(fail(ErrorCode::kTimeout, "rank 1 did not answer"));
  const auto answer = pair.helper.ask();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kTimeout);
}

}  // namespace
}  // namespace muster::parallel
