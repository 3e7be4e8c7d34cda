#include "muster/app/debug/debug_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::app {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

comm::FlightEntry entry(std::uint64_t number, std::uint64_t generation, int called,
                        int ended = -1) {
  comm::FlightEntry entry{.generation = Generation{generation},
                          .number = number,
                          .op = "all_reduce sum F32 [8]",
                          .label = "gradients/0",
                          .submitted = TimePoint(seconds(called))};
  if (ended >= 0) entry.ended = TimePoint(seconds(ended));
  return entry;
}

cluster::WorkerState state(std::int32_t worker, const std::vector<comm::FlightEntry>& entries) {
  const std::string text =
      encode({.record = flight_record(Rank{worker}, 2, entries, TimePoint(seconds(100))),
              .stacks = "thread \"main\"\n"});
  const auto bytes = std::as_bytes(std::span(text));
  return {.worker = Rank{worker},
          .host = "here",
          .pid = 40 + worker,
          .progress = {Step{7}, "computing", {}},
          .process = {},
          .dump = cluster::Bytes{bytes.begin(), bytes.end()},
          .waits_to_begin = false};
}

TEST(FlightRecordOf, HoldsTheNewestGenerationAndNoMessages) {
  comm::FlightEntry message = entry(0, 2, 97);
  message.number.reset();
  const auto record = flight_record(
      Rank{1}, 3, {entry(9, 1, 90, 91), entry(1, 2, 95, 96), message, entry(2, 2, 98)},
      TimePoint(seconds(100)));
  EXPECT_EQ(record.generation, Generation{2});
  EXPECT_EQ(record.size, 3);
  ASSERT_EQ(record.calls.size(), 2U);
  EXPECT_EQ(record.calls[0].took, seconds(1));
  EXPECT_EQ(record.calls[1].age, seconds(2));
  EXPECT_FALSE(record.calls[1].took);
}

TEST(FlightRecordOf, NothingBeganInTheFuture) {
  const auto record = flight_record(Rank{0}, 2, {entry(1, 1, 101)}, TimePoint(seconds(100)));
  ASSERT_EQ(record.calls.size(), 1U);
  EXPECT_EQ(record.calls[0].age, Duration::zero());
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
  EXPECT_THAT(conclusions(report)[0], HasSubstr("rank 0 has waited 12.0 s"));
  EXPECT_THAT(conclusions(report)[0], HasSubstr("which rank 1 has not called"));
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
  EXPECT_THAT(text, HasSubstr("rank 1 does not answer"));
  EXPECT_THAT(text, HasSubstr("its process is stopped (SIGSTOP); it was at step 7, computing"));
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

TEST(DebugReport, TravelsThroughItsFile) {
  const auto report =
      make_debug_report({state(0, {entry(1, 1, 88)}), state(1, {})}, WallTime{}, "the job failed");
  const auto read = debug_report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_text(*read, true), to_text(report, true));
  EXPECT_EQ(read->occasion, "the job failed");
  EXPECT_EQ(debug_report_from_json("{\"time\":3}").error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace muster::app
