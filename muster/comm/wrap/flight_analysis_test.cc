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

constexpr auto kMemory = Awaited::Over::kMemory;
constexpr auto kConnections = Awaited::Over::kConnections;

FlightCall waiting_for(std::vector<Rank> ranks, Awaited::Over over = kMemory, int since = 12) {
  FlightCall call = waiting(2, since);
  call.waits_for = Awaited{over, std::move(ranks)};
  return call;
}

// What is said of ranks that are all in the second call.
std::string of_all_in(const std::vector<FlightCall>& calls) {
  std::vector<FlightRecord> records;
  for (const FlightCall& call : calls)
    records.push_back(record(static_cast<std::int32_t>(records.size()), {done(1), call}, 2,
                             static_cast<std::int32_t>(calls.size())));
  const auto findings = analyse(records);
  EXPECT_LE(findings.size(), 1U);
  return findings.empty() ? "" : describe(findings[0], Generation{2});
}

const std::string kAllIn =
    "all ranks have been in all_reduce sum F32 [8] (gradients/0), #2 of generation 2 for ";

TEST(FlightAnalysis, WhereAllAreInOneItIsSaidForWhomTheyWait) {
  // Since the last of them came to it.
  EXPECT_EQ(of_all_in({waiting_for({}, kMemory, 12), waiting_for({Rank{0}}, kMemory, 14),
                       waiting_for({Rank{0}}, kMemory, 9)}),
            kAllIn + "9.0 s, and the others wait for rank 0, which does not get on");
  EXPECT_EQ(of_all_in({waiting_for({Rank{1}, Rank{2}}), waiting_for({}), waiting_for({})}),
            kAllIn + "12.0 s, and the others wait for ranks 1, 2, which do not get on");
  // Of a chain its end.
  EXPECT_EQ(of_all_in({waiting_for({Rank{1}}, kConnections), waiting_for({Rank{2}}, kConnections),
                       waiting_for({}, kConnections)}),
            kAllIn + "12.0 s, and the others wait for rank 2, which does not get on");
  // Of whom nothing is known, the others know that it is waited for.
  EXPECT_EQ(of_all_in({waiting_for({Rank{1}}), waiting(2)}),
            kAllIn + "12.0 s, and the others wait for rank 1, which does not get on");
}

TEST(FlightAnalysis, WhereAllAreInOneAndNobodyCanBeNamedItIsSaidWhy) {
  EXPECT_EQ(of_all_in({waiting_for({Rank{1}}, kConnections), waiting_for({Rank{0}}, kConnections)}),
            kAllIn + "12.0 s: the connections between them carry nothing");
  EXPECT_EQ(of_all_in({waiting(2), waiting(2)}), kAllIn + "12.0 s: none of them gets on");
  EXPECT_EQ(of_all_in({waiting_for({}), waiting_for({})}), kAllIn + "12.0 s: none of them gets on");
}

// In memory somebody is always furthest behind: between the two records they have got on.
TEST(FlightAnalysis, WhatIsSeenAtDifferentTimesBlamesNobody) {
  EXPECT_EQ(of_all_in({waiting_for({Rank{1}}), waiting_for({Rank{0}})}), "");
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
