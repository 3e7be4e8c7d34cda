#include "muster/comm/wrap/flight_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::comm {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

FlightCall done(std::uint64_t number) {
  return {.number = number, .op = "all_reduce sum F32 [8]", .age = seconds(20), .took = seconds(0)};
}
FlightCall waiting(std::uint64_t number, int since = 12) {
  return {.number = number,
          .op = "all_reduce sum F32 [8]",
          .label = "gradients/0",
          .age = seconds(since)};
}
FlightRecord record(std::int32_t rank, std::vector<FlightCall> calls, std::uint64_t generation = 2,
                    std::int32_t size = 2) {
  return {.rank = Rank{rank},
          .size = size,
          .generation = Generation{generation},
          .calls = std::move(calls)};
}

TEST(FlightAnalysis, WhoHasNotCalledIsNamed) {
  const auto findings = analyse({record(0, {done(1), waiting(2, 11), waiting(3)}),
                                 record(1, {done(1), waiting(2, 12)}), record(2, {done(1)})});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, FlightFinding::Kind::kMissed);
  EXPECT_THAT(findings[0].ranks, ElementsAre(Rank{2}));
  EXPECT_EQ(
      describe(findings[0], Generation{2}),
      "ranks 0, 1 have waited 12.0 s in all_reduce sum F32 [8] (gradients/0), #2 of generation "
      "2, which rank 2 has not called");
}

TEST(FlightAnalysis, CallsRanksByOtherNumbersWhereAllOfThemHaveOne) {
  const auto findings =
      analyse({record(0, {waiting(1, 12)}), record(1, {waiting(1)}), record(2, {})});
  ASSERT_THAT(findings, SizeIs(1));
  const RankWording all("worker", {{Rank{0}, 7}, {Rank{1}, 3}, {Rank{2}, 4}});
  EXPECT_THAT(describe(findings[0], Generation{2}, all),
              ::testing::AllOf(::testing::StartsWith("workers 3, 7 have waited 12.0 s"),
                               ::testing::EndsWith("which worker 4 has not called")));
  const RankWording some("worker", {{Rank{1}, 3}, {Rank{2}, 4}});
  EXPECT_THAT(describe(findings[0], Generation{2}, some),
              ::testing::AllOf(::testing::StartsWith("ranks 0, 1 have waited"),
                               ::testing::EndsWith("which worker 4 has not called")));
}

TEST(FlightAnalysis, WhatFailedCountsAsWaitedIn) {
  FlightCall failed = waiting(2);
  failed.took = seconds(30);
  failed.failed = true;
  const auto findings = analyse({record(0, {done(1), failed}), record(1, {})});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(describe(findings[0], Generation{2}),
              ::testing::HasSubstr("rank 0 has waited 30.0 s"));
}

TEST(FlightAnalysis, AnotherCallIsShownBesideTheFirst) {
  FlightCall other = waiting(2);
  other.op = "broadcast F32 [8] from rank 0";
  const auto findings =
      analyse({record(0, {waiting(2)}), record(1, {waiting(2)}), record(2, {other})});
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, FlightFinding::Kind::kDiffers);
  EXPECT_THAT(findings[0].ranks, ElementsAre(Rank{2}));
  EXPECT_THAT(findings[0].waiting, ElementsAre(Rank{0}));
}

TEST(FlightAnalysis, AllInOneMeansTheWayBetweenThem) {
  const auto findings = analyse({record(0, {waiting(2)}), record(1, {waiting(2)})});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, FlightFinding::Kind::kNoProgress);
}

TEST(FlightAnalysis, WhoGivesNoAnswerIsNamedWhereAllOthersWait) {
  const auto findings = analyse({record(0, {waiting(2)}, 2, 3), record(2, {waiting(2)}, 2, 3)});
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].kind, FlightFinding::Kind::kSilent);
  EXPECT_THAT(findings[0].ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(describe(findings[0], Generation{2}),
              ::testing::HasSubstr("; rank 1 does not answer"));
}

TEST(FlightAnalysis, NothingIsSaidOfWellAndOfOldGenerations) {
  EXPECT_THAT(analyse({}), IsEmpty());
  EXPECT_THAT(analyse({record(0, {done(1)}), record(1, {done(1)})}), IsEmpty());
  EXPECT_THAT(analyse({record(0, {waiting(9)}, 1), record(1, {done(1)}, 2)}), IsEmpty());
  // One has gone on, the other is about to see the same.
  EXPECT_THAT(analyse({record(0, {done(2)}), record(1, {waiting(2)})}), IsEmpty());
}

}  // namespace
}  // namespace muster::comm
