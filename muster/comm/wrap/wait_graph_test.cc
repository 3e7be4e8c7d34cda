#include "muster/comm/wrap/wait_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace muster::comm {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// One rank's record, put together.
struct OfRank {
  FlightRecord record;

  OfRank(std::int32_t rank, std::int32_t size)
      : record{.rank = Rank{rank}, .size = size, .generation = Generation{2}} {}

  OfRank& message(bool sends, std::int32_t peer, std::uint64_t turn, FlightCall call) {
    call.number = turn;
    call.op = sends ? "send" : "recv";
    record.messages.push_back(
        {.sends = sends, .peer = Rank{peer}, .tag = 1, .part = "", .call = std::move(call)});
    return *this;
  }
  OfRank& receives(std::int32_t peer, std::uint64_t turn, int waited = 12) {
    return message(false, peer, turn,
                   {.label = "activation", .age = seconds(waited + 1), .waited = seconds(waited)});
  }
  OfRank& sends(std::int32_t peer, std::uint64_t turn, int waited = 12) {
    return message(true, peer, turn,
                   {.label = "activation", .age = seconds(waited + 1), .waited = seconds(waited)});
  }
  OfRank& expects(std::int32_t peer, std::uint64_t turn) {  // and blocks for something else
    return message(false, peer, turn, {.age = seconds(13)});
  }
  OfRank& sent(std::int32_t peer, std::uint64_t turn, int age) {
    return message(true, peer, turn, {.age = seconds(age), .took = seconds(0)});
  }
  OfRank& received(std::int32_t peer, std::uint64_t turn, int age) {
    return message(false, peer, turn, {.age = seconds(age), .took = seconds(0)});
  }
  OfRank& computes(const char* what, bool waits = false) {
    record.passes.push_back({.what = what, .age = seconds(12), .waits = waits});
    return *this;
  }
  OfRank& calls(std::uint64_t number, bool over = false) {
    FlightCall call{.number = number, .op = "barrier", .age = seconds(12)};
    if (over)
      call.took = seconds(1);
    else
      call.waited = seconds(12);
    record.calls.push_back(call);
    return *this;
  }
  OfRank& calls_in_part(std::vector<Rank> members, std::uint64_t number,
                        std::optional<Awaited> waits_for = {}) {
    FlightCall call{.number = number,
                    .op = "all_reduce",
                    .age = seconds(12),
                    .waited = seconds(12),
                    .waits_for = std::move(waits_for)};
    record.parts.push_back({.id = "/1", .members = std::move(members), .calls = {call}});
    return *this;
  }
};

std::vector<FlightRecord> records_of(std::initializer_list<OfRank> ranks) {
  std::vector<FlightRecord> records;
  for (const OfRank& rank : ranks) records.push_back(rank.record);
  return records;
}

std::vector<std::string> lines_of(std::initializer_list<OfRank> ranks) {
  std::vector<std::string> lines;
  for (const WaitFinding& finding : analyse_waits(records_of(ranks)))
    lines.push_back(describe(finding));
  return lines;
}

OfRank of_rank(std::int32_t number, std::int32_t size = 3) { return {number, size}; }

TEST(WaitGraph, AChainLeadsToWhoComputes) {
  EXPECT_THAT(lines_of({of_rank(0, 4), of_rank(1, 4).computes("forward of slice 5, chunk 1"),
                        of_rank(2, 4).receives(1, 7), of_rank(3, 4).receives(2, 7, 11)}),
              ElementsAre("rank 3 has waited 11.0 s for rank 2 (receive, activation), which waits "
                          "for rank 1 (receive, activation), which has been in forward of slice 5, "
                          "chunk 1 for 12.0 s"));
}

TEST(WaitGraph, TwoBranchesMeetAtTheCulprit) {
  const auto found = analyse_waits(
      records_of({of_rank(0).receives(1, 3, 9), of_rank(1).computes("backward of slice 2"),
                  of_rank(2).receives(1, 7, 12)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, WaitFinding::Kind::kCulprit);
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{1}));
  EXPECT_EQ(longest_wait(found[0]), seconds(12));
  EXPECT_EQ(describe(found[0]),
            "rank 2 has waited 12.0 s for rank 1 (receive, activation), which has been in backward "
            "of slice 2 for 12.0 s; rank 0 has waited 9.0 s for rank 1 (receive, activation)");
}

TEST(WaitGraph, TwoCulpritsAreTwoFindings) {
  const auto found =
      analyse_waits(records_of({of_rank(0, 5).receives(1, 1), of_rank(1, 5),
                                of_rank(2, 5).receives(3, 1), of_rank(3, 5), of_rank(4, 5)}));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(found[1].ranks, ElementsAre(Rank{3}));
}

TEST(WaitGraph, ACycleIsADeadlockWithAllItsWaits) {
  const auto found =
      analyse_waits(records_of({of_rank(0, 4).receives(1, 1), of_rank(1, 4).receives(2, 1),
                                of_rank(2, 4).sends(0, 1), of_rank(3, 4).receives(2, 4)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, WaitFinding::Kind::kDeadlock);
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{0}, Rank{1}, Rank{2}));
  EXPECT_EQ(describe(found[0]),
            "deadlock: rank 0 has waited 12.0 s for rank 1 (receive, activation), rank 1 has "
            "waited 12.0 s for rank 2 (receive, activation), rank 2 has waited 12.0 s for rank 0 "
            "(send, activation); rank 3 has waited 12.0 s for rank 2 (receive, activation)");
  const RankWording names("worker", {{Rank{0}, 4}, {Rank{1}, 5}, {Rank{2}, 6}, {Rank{3}, 7}});
  EXPECT_EQ(describe(found[0], names),
            "deadlock: worker 4 has waited 12.0 s for worker 5 (receive, activation), worker 5 has "
            "waited 12.0 s for worker 6 (receive, activation), worker 6 has waited 12.0 s for "
            "worker 4 (send, activation); worker 7 has waited 12.0 s for worker 6 (receive, "
            "activation)");
}

TEST(WaitGraph, TwoCyclesAreTwoDeadlocks) {
  const auto found =
      analyse_waits(records_of({of_rank(0, 4).receives(1, 1), of_rank(1, 4).receives(0, 1),
                                of_rank(2, 4).receives(3, 1), of_rank(3, 4).receives(2, 1)}));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{0}, Rank{1}));
  EXPECT_THAT(found[1].ranks, ElementsAre(Rank{2}, Rank{3}));
}

TEST(WaitGraph, WhoWaitsForItselfIsADeadlock) {
  const auto found = analyse_waits(records_of({of_rank(0, 1).receives(0, 1)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, WaitFinding::Kind::kDeadlock);
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{0}));
}

TEST(WaitGraph, ARankWithoutAReportIsNamed) {
  const auto found =
      analyse_waits(records_of({of_rank(0).receives(1, 1), of_rank(2).receives(1, 1)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, WaitFinding::Kind::kSilent);
  EXPECT_THAT(found[0].ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(describe(found[0]), HasSubstr(", which does not answer"));
}

TEST(WaitGraph, ReceivesAheadOfTheirTimeDoNotWait) {
  EXPECT_THAT(lines_of({of_rank(0).expects(1, 1), of_rank(1).expects(0, 1), of_rank(2)}),
              IsEmpty());
  // Nor does a rank that computes beside a thread that waits; but one whose pass waits does.
  EXPECT_THAT(
      lines_of({of_rank(0, 2).receives(1, 1).computes("forward of slice 0"), of_rank(1, 2)}),
      IsEmpty());
  EXPECT_THAT(
      lines_of({of_rank(0, 2).receives(1, 1).computes("forward of slice 0", true), of_rank(1, 2)}),
      SizeIs(1));
}

TEST(WaitGraph, WhoHasJustSentIsNotWaitedFor) {
  EXPECT_THAT(lines_of({of_rank(0, 2).receives(1, 4, 1), of_rank(1, 2).sent(0, 4, 1)}), IsEmpty());
  EXPECT_THAT(lines_of({of_rank(0, 2).receives(1, 4, 60), of_rank(1, 2).sent(0, 6, 1)}), IsEmpty());
  EXPECT_THAT(lines_of({of_rank(0, 2).sends(1, 4, 60), of_rank(1, 2).received(0, 4, 60)}),
              IsEmpty());
  EXPECT_THAT(
      lines_of({of_rank(0, 2).receives(1, 4), of_rank(1, 2).sent(0, 3, 50)}),
      ElementsAre(HasSubstr("for rank 1 (receive, activation), which waits for nobody since "
                            "the end of its last operation (send), 50.0 s ago")));
  // Of another rank's way to it, or another tag, nothing follows.
  EXPECT_THAT(lines_of({of_rank(0).receives(1, 4), of_rank(1).sent(2, 4, 1), of_rank(2)}),
              SizeIs(1));
}

TEST(WaitGraph, WhatWasSentLongAgoHasNotArrived) {
  const auto found =
      analyse_waits(records_of({of_rank(0).receives(1, 4), of_rank(1).sent(0, 4, 11).receives(0, 9),
                                of_rank(2).receives(0, 2)}));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].kind, WaitFinding::Kind::kNotArrived);
  EXPECT_EQ(describe(found[0]),
            "rank 2 has waited 12.0 s for rank 0 (receive, activation), which waits for rank 1 "
            "(receive, activation), which has long sent it: it has not arrived");
  EXPECT_THAT(lines_of({of_rank(0, 2).sends(1, 4), of_rank(1, 2).expects(0, 4)}),
              ElementsAre(HasSubstr("which is ready for it: it does not get there")));
}

TEST(WaitGraph, WhatFailedCountsAsWaitedFor) {
  OfRank late = of_rank(0, 2).receives(1, 4);
  late.record.messages[0].call.took = seconds(13);
  late.record.messages[0].call.failed = true;
  EXPECT_THAT(lines_of({late, of_rank(1, 2)}), SizeIs(1));
  late.record.messages[0].call.failed = false;
  EXPECT_THAT(lines_of({late, of_rank(1, 2)}), IsEmpty());
}

TEST(WaitGraph, CollectivesOfAPartAreWaitedInForItsMembers) {
  const std::vector<Rank> pair{Rank{0}, Rank{2}};
  EXPECT_THAT(
      lines_of({of_rank(0).calls_in_part(pair, 3), of_rank(1), of_rank(2).computes("forward")}),
      ElementsAre("rank 0 has waited 12.0 s for rank 2 (all_reduce, #3), which has been in "
                  "forward for 12.0 s"));
  EXPECT_THAT(lines_of({of_rank(0).calls_in_part(pair, 3),
                        of_rank(2).calls_in_part({Rank{1}, Rank{2}}, 3)}),
              ElementsAre("rank 0 has waited 12.0 s for rank 2 (all_reduce, #3), which waits for "
                          "rank 1 (all_reduce, #3), which does not answer"));  // another part's
  EXPECT_THAT(lines_of({of_rank(0).calls_in_part(pair, 3), of_rank(1).receives(2, 1),
                        of_rank(2).calls_in_part(pair, 3)}),
              ElementsAre("ranks 0, 2 have all been in all_reduce, #3 for 12.0 s: none of them "
                          "gets on; rank 1 has waited 12.0 s for rank 2 (receive, activation)"));
}

TEST(WaitGraph, InsideACollectiveOfAPartTheWaitsGoToWhoDoesNotGetOn) {
  using enum Awaited::Over;
  const std::vector<Rank> pair{Rank{0}, Rank{2}};
  EXPECT_THAT(
      lines_of({of_rank(0).calls_in_part(pair, 3, Awaited{kMemory, {Rank{2}}}),
                of_rank(1).receives(0, 1),
                of_rank(2).calls_in_part(pair, 3, Awaited{kMemory, {}})}),
      ElementsAre("rank 1 has waited 12.0 s for rank 0 (receive, activation), which waits for rank "
                  "2 (all_reduce, #3), which is in all_reduce, #3 and does not get on"));
  const auto both_wait = [&](Awaited::Over over) {
    return lines_of({of_rank(0).calls_in_part(pair, 3, Awaited{over, {Rank{2}}}), of_rank(1),
                     of_rank(2).calls_in_part(pair, 3, Awaited{over, {Rank{0}}})});
  };
  EXPECT_THAT(both_wait(kConnections), ElementsAre("ranks 0, 2 have all been in all_reduce, #3 for "
                                                   "12.0 s: the connections between them carry "
                                                   "nothing"));
  EXPECT_THAT(both_wait(kMemory), IsEmpty());
}

TEST(WaitGraph, ManyChainsAreCounted) {
  std::vector<FlightRecord> records{of_rank(0, 12).record};
  for (std::int32_t other = 1; other < 12; ++other)
    records.push_back(of_rank(other, 12).receives(0, 1).record);
  const auto found = analyse_waits(records);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].waits, SizeIs(11));
  EXPECT_THAT(describe(found[0]), HasSubstr("; 3 more wait for these"));
}

TEST(WaitGraph, NothingIsSaidOfWellAndOfOddRecords) {
  EXPECT_THAT(analyse_waits({}), IsEmpty());
  EXPECT_THAT(lines_of({of_rank(0, 1)}), IsEmpty());
  EXPECT_THAT(lines_of({of_rank(0, 2).receives(7, 1), of_rank(1, 2)}), IsEmpty());
  EXPECT_THAT(lines_of({of_rank(4, 2), of_rank(0, 2)}), IsEmpty());
  OfRank old = of_rank(0, 2).receives(1, 1);
  old.record.generation = Generation{1};
  EXPECT_THAT(lines_of({old, of_rank(1, 2)}), IsEmpty());
}

TEST(HeldUp, WhoWaitsItselfIsNotToldAsMissing) {
  const auto found = find_held_up(
      records_of({of_rank(0).calls(4), of_rank(1).computes("forward"), of_rank(2).receives(1, 1)}));
  EXPECT_THAT(found.calls, IsEmpty());
  ASSERT_THAT(found.waits, SizeIs(1));
  EXPECT_THAT(found.waits[0].ranks, ElementsAre(Rank{1}));
  EXPECT_THAT(describe(found.waits[0]),
              ::testing::AllOf(HasSubstr("rank 2 has waited"), HasSubstr("rank 0 has waited"),
                               Not(HasSubstr("for rank 2"))));
}

TEST(HeldUp, NobodyIsLeftOutForOneWhoWaits) {
  const auto found =
      find_held_up(records_of({of_rank(0, 4).calls(4), of_rank(1, 4), of_rank(2, 4).receives(3, 1),
                               of_rank(3, 4).calls(4)}));
  ASSERT_THAT(found.waits, SizeIs(2));
  EXPECT_EQ(found.waits[0].kind, WaitFinding::Kind::kDeadlock);
  EXPECT_THAT(found.waits[0].ranks, ElementsAre(Rank{2}, Rank{3}));
  EXPECT_THAT(found.waits[1].ranks, ElementsAre(Rank{1}));
}

TEST(HeldUp, CollectivesOfAllAreToldAsEver) {
  const auto missed =
      find_held_up(records_of({of_rank(0).calls(4), of_rank(1).calls(4), of_rank(2)}));
  EXPECT_THAT(missed.waits, IsEmpty());
  ASSERT_THAT(missed.calls, SizeIs(1));
  EXPECT_EQ(missed.calls[0].kind, FlightFinding::Kind::kMissed);
  const auto silent = find_held_up(records_of({of_rank(0).calls(4), of_rank(1).calls(4)}));
  EXPECT_THAT(silent.waits, IsEmpty());
  ASSERT_THAT(silent.calls, SizeIs(1));
  EXPECT_EQ(silent.calls[0].kind, FlightFinding::Kind::kSilent);
  const auto well =
      find_held_up(records_of({of_rank(0, 2).calls(4), of_rank(1, 2).calls(4, true)}));
  EXPECT_THAT(well.waits, IsEmpty());
  EXPECT_THAT(well.calls, IsEmpty());
}

}  // namespace
}  // namespace muster::comm
