#include "muster/app/debug/debug_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <thread>

namespace muster::app {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

comm::FlightEntry entry(std::uint64_t number, std::uint64_t generation, int called,
                        int ended = -1) {
  comm::FlightEntry entry{.generation = Generation{generation},
                          .turn = number,
                          .number = number,
                          .op = "all_reduce sum F32 [8]",
                          .label = "gradients/0",
                          .submitted = TimePoint(seconds(called))};
  if (ended >= 0) entry.ended = TimePoint(seconds(ended));
  return entry;
}

// A message that was submitted so long before it is awaited.
comm::FlightEntry message(comm::FlightPeer peer, std::uint64_t turn, int submitted,
                          int awaited = -1, int ended = -1) {
  comm::FlightEntry message = entry(turn, 1, submitted, ended);
  message.number.reset();
  message.peer = peer;
  message.op = peer.sends ? "send U8 [4]" : "recv U8 [4]";
  message.label = "activation";
  if (awaited >= 0) message.awaited = TimePoint(seconds(awaited));
  return message;
}

cluster::WorkerState state(std::int32_t worker, const std::vector<comm::FlightEntry>& entries,
                           const std::vector<comm::RunningPass>& passes = {}) {
  const std::string text =
      encode({.record = flight_record(Rank{worker}, 2, entries, passes, TimePoint(seconds(100))),
              .stacks = "thread \"main\"\n"});
  const auto bytes = std::as_bytes(std::span(text));
  return {.worker = Rank{worker},
          .host = "here",
          .pid = 40 + worker,
          .progress = {Step{7}, "computing", {}},
          .process = {},
          .dump = cluster::Bytes{bytes.begin(), bytes.end()},
          .waits_to_begin = false,
          .rank = Rank{worker}};
}

TEST(FlightRecordOf, HoldsTheNewestGeneration) {
  const auto record = flight_record(Rank{1}, 3,
                                    {entry(9, 1, 90, 91), message({Rank{0}, true, 5}, 3, 90),
                                     entry(1, 2, 95, 96), entry(2, 2, 98)},
                                    {}, TimePoint(seconds(100)));
  EXPECT_TRUE(record.messages.empty());
  EXPECT_EQ(record.generation, Generation{2});
  EXPECT_EQ(record.size, 3);
  ASSERT_EQ(record.calls.size(), 2U);
  EXPECT_EQ(record.calls[0].took, seconds(1));
  EXPECT_EQ(record.calls[1].age, seconds(2));
  EXPECT_FALSE(record.calls[1].took);
}

TEST(FlightRecordOf, NothingBeganInTheFuture) {
  const auto record = flight_record(Rank{0}, 2, {entry(1, 1, 101)}, {}, TimePoint(seconds(100)));
  ASSERT_EQ(record.calls.size(), 1U);
  EXPECT_EQ(record.calls[0].age, Duration::zero());
}

TEST(FlightRecordOf, HoldsOfAStreamWhatIsUnderWayAndTheLastThatIsDone) {
  const comm::FlightPeer from{Rank{0}, false, 5};
  const comm::FlightPeer to{Rank{0}, true, 5};
  const auto record =
      flight_record(Rank{1}, 2,
                    {message(from, 1, 80, -1, 81), message(to, 1, 81, -1, 82),
                     message(from, 2, 82, 83, 84), message(from, 3, 85, 90), message(from, 4, 86)},
                    {}, TimePoint(seconds(100)));
  std::vector<std::uint64_t> turns;
  for (const comm::FlightMessage& one : record.messages) turns.push_back(one.call.number);
  EXPECT_THAT(turns, ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(record.messages[0].sends);
  EXPECT_EQ(record.messages[1].call.waited, seconds(1));
  EXPECT_EQ(record.messages[2].call.waited, seconds(10));
  EXPECT_EQ(record.messages[2].call.age, seconds(15));
  EXPECT_FALSE(record.messages[3].call.waited);
  EXPECT_TRUE(record.calls.empty());
}

TEST(FlightRecordOf, TellsPartsFromTheWhole) {
  const auto group =
      std::make_shared<const comm::FlightGroup>(comm::FlightGroup{"/1", {Rank{0}, Rank{2}}});
  std::vector<comm::FlightEntry> entries{entry(1, 1, 80, 81), entry(1, 1, 82, 83), entry(2, 1, 90)};
  for (comm::FlightEntry& of_part : std::span(entries).subspan(1)) {
    of_part.part = group;
    of_part.number.reset();
  }
  const auto record = flight_record(Rank{2}, 3, entries, {}, TimePoint(seconds(100)));
  EXPECT_EQ(record.calls.size(), 1U);
  ASSERT_EQ(record.parts.size(), 1U);
  EXPECT_THAT(record.parts[0].members, ElementsAre(Rank{0}, Rank{2}));
  EXPECT_EQ(record.parts[0].calls.size(), 2U);
}

TEST(FlightRecordOf, APassWaitsWhereItsThreadDoes) {
  comm::FlightEntry awaited = entry(1, 1, 80);
  awaited.awaited = TimePoint(seconds(90));
  awaited.awaited_by = std::this_thread::get_id();
  const auto waits = [&](int since, std::thread::id thread) {
    const auto record =
        flight_record(Rank{0}, 2, {awaited}, {{"forward", TimePoint(seconds(since)), thread}},
                      TimePoint(seconds(100)));
    EXPECT_EQ(record.passes.at(0).age, seconds(100 - since));
    return record.passes.at(0).waits;
  };
  EXPECT_TRUE(waits(85, awaited.awaited_by));
  EXPECT_FALSE(waits(95, awaited.awaited_by));  // of a pass before
  EXPECT_FALSE(waits(85, {}));
  awaited.ended = TimePoint(seconds(99));
  EXPECT_FALSE(waits(85, awaited.awaited_by));
}

TEST(DebugReport, SaysOnlyWhatIsKnownOfAWorkerNotHeardOfYet) {
  cluster::WorkerState silent = state(1, {});
  silent.dump.reset();
  silent.host.clear();
  silent.process = "running";
  silent.progress = {};
  EXPECT_THAT(conclusions(make_debug_report({silent}, WallTime{}, "asked for")),
              ElementsAre("worker 1 (pid 41) does not answer: running; it was at step 0"));
  silent.pid = 0;
  EXPECT_THAT(conclusions(make_debug_report({silent}, WallTime{}, "asked for")),
              ElementsAre(HasSubstr("worker 1 (not heard of yet) does not answer")));
}

TEST(DebugReport, NamesWhoHasNotCalledAndShowsItsStacks) {
  const auto report = make_debug_report(
      {state(0, {entry(1, 1, 80, 81), entry(2, 1, 88)}), state(1, {entry(1, 1, 80, 81)})},
      WallTime{}, "asked for");
  ASSERT_EQ(conclusions(report).size(), 1U);
  EXPECT_THAT(conclusions(report)[0], HasSubstr("worker 0 has waited 12.0 s"));
  EXPECT_THAT(conclusions(report)[0], HasSubstr("which worker 1 has not called"));
  const std::string text = to_text(report, false);
  EXPECT_THAT(text,
              HasSubstr("  worker 0 (rank 0, pid 40 on here): step 7, computing; waits 12.0 s "
                        "in all_reduce sum F32 [8] (gradients/0), #2\n"));
  EXPECT_THAT(text, HasSubstr("  worker 1 (rank 1, pid 41 on here): step 7, computing; 20.0 s ago "
                              "called all_reduce sum F32 [8] (gradients/0), #1\n"));
  EXPECT_THAT(text, HasSubstr("stacks of worker 1"));
  EXPECT_THAT(text, Not(HasSubstr("stacks of worker 0")));
  EXPECT_THAT(to_text(report, true), HasSubstr("stacks of worker 0"));
}

TEST(DebugReport, WhoDoesNotAnswerIsNamedWithItsProcess) {
  auto silent = state(1, {});
  silent.dump.reset();
  silent.process = "its process is stopped (SIGSTOP)";
  const auto report =
      make_debug_report({state(0, {entry(1, 1, 88)}), silent}, WallTime{}, "asked for");
  const std::string text = to_text(report, false);
  EXPECT_THAT(text, Not(HasSubstr("waits for")));
  EXPECT_THAT(text, HasSubstr("; worker 1 does not answer"));
  EXPECT_THAT(text, HasSubstr("its process is stopped (SIGSTOP); it was at step 7, computing"));
}

// Ranks are dealt out anew in every generation; the numbers stay.
TEST(DebugReport, CallsWorkersByTheNumberThatTheyKeep) {
  auto silent = state(4, {});
  silent.dump.reset();
  silent.process = "its process is stopped (SIGSTOP)";
  silent.rank = Rank{1};
  auto report = make_debug_report({state(0, {entry(1, 1, 88)}), silent}, WallTime{}, "asked for");
  EXPECT_THAT(conclusions(report), ElementsAre(HasSubstr("worker 0 has waited 12.0 s"),
                                               HasSubstr("worker 4 (pid 44 on here) does not")));
  EXPECT_THAT(conclusions(report)[0], HasSubstr("; worker 4 does not answer"));
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(conclusions(*read), conclusions(report));
  report.workers[1].rank = kNoRank;
  EXPECT_THAT(conclusions(report)[0], HasSubstr("; rank 1 does not answer"));
}

TEST(DebugReport, WhoWaitsForOthersToJoinIsNotTheOneWhoDoesNotAnswer) {
  auto waits = state(0, {}), silent = state(1, {});
  waits.dump.reset();
  silent.dump.reset();
  waits.waits_to_begin = true;
  waits.process = "its process is asleep";
  silent.process = "its process is stopped (SIGSTOP)";
  const auto report = make_debug_report({waits, silent}, WallTime{}, "the job failed");
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  for (const DebugReport& one : {report, *read}) {
    EXPECT_THAT(conclusions(one), ElementsAre(HasSubstr("worker 1 (pid 41 on here) does not")));
    EXPECT_THAT(to_text(one, false), HasSubstr("computing; waits for others to join\n"));
  }
}

TEST(DebugReport, WhoWaitsForAMessageIsNotToBlame) {
  const comm::FlightPeer from{Rank{1}, false, 5};
  const auto report = make_debug_report(
      {state(0, {message(from, 3, 80, 88)}),
       state(1, {}, {{"forward of slice 5, chunk 1", TimePoint(seconds(87)), {}}})},
      WallTime{}, "asked for");
  EXPECT_THAT(
      conclusions(report),
      ElementsAre("worker 0 has waited 12.0 s for worker 1 (receive, activation), which has "
                  "been in forward of slice 5, chunk 1 for 13.0 s"));
  const std::string text = to_text(report, false);
  EXPECT_THAT(text, HasSubstr("step 7, computing; waits 12.0 s in recv U8 [4] (activation), #3\n"));
  EXPECT_THAT(text, HasSubstr("stacks of worker 1"));
  EXPECT_THAT(text, Not(HasSubstr("stacks of worker 0")));
}

TEST(DebugReport, OfARunThatIsWellAnOperationOfThisMomentIsHeldUpByNobody) {
  auto of_now = entry(1, 1, 100);
  of_now.submitted -= std::chrono::milliseconds(183);
  auto report = make_debug_report({state(0, {of_now}), state(1, {of_now})}, WallTime{},
                                  std::string(kAskedFor));
  EXPECT_THAT(conclusions(report), ElementsAre());
  EXPECT_THAT(to_text(report, false), ::testing::StartsWith("no operation is held up\n"));
  EXPECT_THAT(to_text(report, false), Not(HasSubstr("stacks of")));
  report.occasion = "the job failed";
  EXPECT_THAT(conclusions(report), ElementsAre(HasSubstr("for 183 ms")));
}

TEST(DebugReport, WhoIsStartingIsNotTheOneWhoDoesNotAnswer) {
  auto begins = state(1, {});
  begins.dump.reset();
  begins.starting = true;
  begins.process = "its process is running";
  const auto report = make_debug_report({begins}, WallTime{}, std::string(kAskedFor));
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  for (const DebugReport& one : {report, *read}) {
    EXPECT_THAT(conclusions(one), ElementsAre());
    EXPECT_THAT(to_text(one, false), HasSubstr("starting; its process is running\n"));
  }
}

TEST(DebugReport, WhoDoesNotAnswerAMessageIsNamedWithWhatItDidLast) {
  auto silent = state(1, {});
  silent.dump.reset();
  silent.process = "its process is stopped (SIGSTOP)";
  silent.progress.operation = "forward of slice 5, chunk 1";
  const auto report = make_debug_report(
      {state(0, {message({Rank{1}, false, 5}, 3, 80, 88)}), silent}, WallTime{}, "asked for");
  EXPECT_THAT(
      conclusions(report),
      ElementsAre("worker 0 has waited 12.0 s for worker 1 (receive, activation), which does "
                  "not answer",
                  "worker 1 (pid 41 on here) does not answer: its process is stopped "
                  "(SIGSTOP); it was at step 7, computing, in forward of slice 5, chunk "
                  "1"));
}

// Frozen in the middle of it, while its heart beats.
TEST(DebugReport, NamesWhoStandsStillInWhatAllAreInAndShowsTheStacksOfAll) {
  const auto inside = [](std::vector<Rank> awaited) {
    comm::FlightEntry one = entry(3, 1, 90);
    one.waits_for = comm::Awaited{comm::Awaited::Over::kMemory, std::move(awaited)};
    return one;
  };
  const auto report = make_debug_report({state(0, {inside({})}), state(1, {inside({Rank{0}})})},
                                        WallTime{}, std::string(kAskedFor));
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  for (const DebugReport& one : {report, *read}) {
    EXPECT_THAT(conclusions(one),
                ElementsAre("all workers have been in all_reduce sum F32 [8] (gradients/0), #3 of "
                            "generation 1 for 10.0 s, and the others wait for worker 0, which does "
                            "not get on"));
    EXPECT_THAT(to_text(one, false), HasSubstr("\nstacks of worker 0 "));
    EXPECT_THAT(to_text(one, false), HasSubstr("\nstacks of worker 1 "));
  }
}

TEST(DebugReport, TravelsThroughItsFile) {
  comm::FlightEntry of_part = entry(1, 1, 70);
  of_part.number.reset();
  of_part.part =
      std::make_shared<const comm::FlightGroup>(comm::FlightGroup{"/1", {Rank{0}, Rank{1}}});
  of_part.awaited = TimePoint(seconds(71));
  const auto report = make_debug_report(
      {state(0, {entry(1, 1, 88), of_part, message({Rank{1}, false, 5}, 3, 80, 88)}),
       state(1, {}, {{"forward of slice 5", TimePoint(seconds(87)), {}}})},
      WallTime{}, "the job failed");
  EXPECT_THAT(conclusions(report), ::testing::Contains(HasSubstr("in forward of slice 5")));
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_text(*read, true), to_text(report, true));
  EXPECT_EQ(read->occasion, "the job failed");
  EXPECT_EQ(debug_report_from_json("{\"time\":3}").error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster::app
