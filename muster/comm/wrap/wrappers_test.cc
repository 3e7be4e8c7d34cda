#include "muster/comm/wrap/wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace muster::comm {
namespace {

// Ends every operation when told to.
class FakeCommunicator final : public Communicator {
 public:
  const Group& group() const noexcept override { return group_; }
  Work submit(Op op, const OpOptions& options) override {
    submitted.emplace_back(describe(op), options);
    states.push_back(std::make_shared<WorkState>(runner));
    return Work(states.back());
  }
  std::vector<Rank> members() const override { return ranks; }
  Result<CommunicatorPtr> split(int, int) override {
    part = std::make_shared<FakeCommunicator>();
    part->ranks = {Rank{2}, Rank{5}};
    return part;
  }
  void abort(Error) noexcept override {}
  Result<Buffer> allocate(std::size_t) override { return fail(ErrorCode::kUnsupported, "none"); }

  std::vector<std::pair<std::string, OpOptions>> submitted;
  std::vector<std::shared_ptr<WorkState>> states;
  std::shared_ptr<WorkRunner> runner;  // of what is submitted
  std::vector<Rank> ranks;
  std::shared_ptr<FakeCommunicator> part;  // the last that has split off

 private:
  Group group_;
};

TEST(WithDeadline, ShortensLongWaitsOnly) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto world = with_deadline(fake, std::chrono::seconds(5));
  OpOptions options;
  options.timeout = std::chrono::seconds(60);
  world->submit(Barrier{}, options);
  options.timeout = std::chrono::seconds(1);
  world->submit(Barrier{}, options);
  EXPECT_EQ(fake->submitted[0].second.timeout, std::chrono::seconds(5));
  EXPECT_EQ(fake->submitted[1].second.timeout, std::chrono::seconds(1));
}

TEST(WithFaults, FailsWhatTheScriptSaysAndNothingElse) {
  const auto fake = std::make_shared<FakeCommunicator>();
  int calls = 0;
  const auto world = with_faults(fake, [&](const Op&, const OpOptions&) -> std::optional<Error> {
    if (++calls == 2) return fail(ErrorCode::kPeerLost, "scripted", Rank{3});
    return std::nullopt;
  });
  EXPECT_FALSE(world->submit(Barrier{}, {}).done());
  const Status failed = world->submit(Barrier{}, {}).wait();
  EXPECT_EQ(failed.error().peer, Rank{3});
  EXPECT_EQ(fake->submitted.size(), 1U);
}

TEST(FlightRecorder, KeepsTheLastOperationsAndHowTheyEnded) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto recorder = std::make_shared<FlightRecorder>(3);
  const auto world = with_trace(fake, recorder);
  std::vector<float> values(1000);
  OpOptions options;
  options.label = "gradients/2";
  for (int i = 0; i < 5; ++i) world->submit(AllReduce{view_of(std::span(values))}, options);
  fake->states[0]->finish(ok());  // no longer kept: ignored
  fake->states[3]->finish(ok());
  fake->states[4]->finish(fail(ErrorCode::kTimeout, "rank 1 is late", Rank{1}));
  const auto entries = recorder->entries();
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].sequence, 2U);
  EXPECT_FALSE(entries[0].ended);
  EXPECT_TRUE(entries[1].ended);
  EXPECT_EQ(entries[2].error->peer, Rank{1});
  EXPECT_EQ(entries[2].bytes, 4000U);
  EXPECT_THAT(
      recorder->report(system_clock()),
      ::testing::AllOf(::testing::HasSubstr("#2 all_reduce sum F32 [1000] (gradients/2)"),
                       ::testing::HasSubstr("in flight"), ::testing::HasSubstr("rank 1 is late")));
}

TEST(FlightRecorder, TellsOfTheOldestInFlight) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto recorder = std::make_shared<FlightRecorder>(2);
  std::vector<std::string> told;
  recorder->on_change([&](std::string_view oldest) { told.emplace_back(oldest); });
  const auto world = with_trace(fake, recorder);
  OpOptions options;
  for (const char* label : {"a", "b", "c", "d"}) {
    options.label = label;
    world->submit(Barrier{}, options);
  }
  EXPECT_EQ(told, std::vector<std::string>{"barrier (a)"});
  fake->states[2]->finish(ok());  // not the oldest
  fake->states[0]->finish(ok());
  fake->states[1]->finish(fail(ErrorCode::kTimeout, "late"));
  fake->states[3]->finish(ok());
  EXPECT_EQ(told, (std::vector<std::string>{"barrier (a)", "an operation of long ago",
                                            "barrier (d)", ""}));
}

TEST(FlightRecorder, TellsOfEachThatHasEnded) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto recorder = std::make_shared<FlightRecorder>(2);
  std::vector<FlightEntry> told;
  recorder->on_end([&](const FlightEntry& entry) { told.push_back(entry); });
  const auto world = with_trace(fake, recorder);
  OpOptions options;
  for (const char* label : {"forgotten", "a", "b"}) {
    options.label = label;
    world->submit(Barrier{}, options);
  }
  fake->states[0]->finish(ok());
  fake->states[2]->finish(ok());
  fake->states[1]->finish(fail(ErrorCode::kTimeout, "late"));
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].label, "b");
  EXPECT_EQ(told[0].number, 3U);
  EXPECT_TRUE(told[0].ended);
  EXPECT_EQ(told[1].error->message, "late");
}

// The same numbers on every rank, by which what belongs together is known.
TEST(FlightRecorder, CountsCollectivesOfEachGroupAndMessagesOfEachStream) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto recorder = std::make_shared<FlightRecorder>();
  const auto world = with_trace(fake, recorder);
  std::vector<float> values(4);
  const TensorView view = view_of(std::span(values));
  world->submit(Barrier{}, {});
  world->submit(Send{view, Rank{1}, 7}, {});
  world->submit(Recv{view, Rank{1}, 7}, {});
  world->submit(Send{view, Rank{1}, 8}, {});
  world->submit(Send{view, Rank{1}, 7}, {});
  const auto part = world->split(0, 0).value();
  part->submit(Barrier{}, {});
  part->submit(Send{view, Rank{1}, 7}, {});
  world->submit(Barrier{}, {});
  const auto inner = part->split(0, 0).value();
  inner->submit(Barrier{}, {});
  std::vector<std::uint64_t> turns;
  for (const FlightEntry& entry : recorder->entries()) turns.push_back(entry.turn);
  EXPECT_EQ(turns, (std::vector<std::uint64_t>{1, 1, 1, 1, 2, 1, 1, 2, 1}));
  const auto entries = recorder->entries();
  EXPECT_EQ(entries[0].number, 1U);
  EXPECT_FALSE(entries[0].part || entries[0].peer);
  EXPECT_EQ(entries[2].peer, (FlightPeer{Rank{1}, false, 7}));
  EXPECT_FALSE(entries[5].number);
  EXPECT_EQ(entries[5].part->id, "/1");
  EXPECT_EQ(entries[5].part->members, (std::vector<Rank>{Rank{2}, Rank{5}}));
  EXPECT_EQ(entries[6].peer, (FlightPeer{Rank{5}, true, 7}));  // by the whole group's ranks
  EXPECT_EQ(entries[7].number, 2U);
  EXPECT_EQ(entries[8].part->id, "/1/1");
}

TEST(FlightRecorder, KnowsForWhatAThreadBlocks) {
  const auto fake = std::make_shared<FakeCommunicator>();
  const auto recorder = std::make_shared<FlightRecorder>();
  const auto world = with_trace(fake, recorder);
  const Work ahead = world->submit(Barrier{}, {});
  const Work awaited = world->submit(Barrier{}, {});
  const Work over = world->submit(Barrier{}, {});
  fake->states[2]->finish(ok());
  EXPECT_TRUE(over.wait());
  EXPECT_FALSE(awaited.wait_until(system_clock(), system_clock().now()));
  const auto entries = recorder->entries();
  EXPECT_FALSE(entries[0].awaited);
  ASSERT_TRUE(entries[1].awaited);
  EXPECT_GE(*entries[1].awaited, entries[1].submitted);
  EXPECT_EQ(entries[1].awaited_by, std::this_thread::get_id());
  EXPECT_FALSE(entries[2].awaited);
  EXPECT_FALSE(ahead.done());
}

struct AwaitsRank2 final : WorkRunner {
  void help(const WorkState&) override {}
  void hasten(const WorkState&) override {}
  std::optional<Awaited> awaited(const WorkState&) override {
    return Awaited{Awaited::Over::kMemory, {Rank{2}}};
  }
};

TEST(FlightRecorder, KnowsForWhomAnOperationWaitsThatIsUnderWayOrFailed) {
  const auto fake = std::make_shared<FakeCommunicator>();
  fake->runner = std::make_shared<AwaitsRank2>();
  const auto recorder = std::make_shared<FlightRecorder>();
  const auto world = with_trace(fake, recorder);
  for (int i = 0; i < 3; ++i) world->submit(Barrier{}, {});
  fake->states[0]->finish(ok());
  fake->states[1]->finish(fail(ErrorCode::kTimeout, "late"));
  const auto entries = recorder->entries();
  EXPECT_FALSE(entries[0].waits_for);
  for (const std::size_t at : {1u, 2u}) {
    ASSERT_TRUE(entries[at].waits_for) << at;
    EXPECT_EQ(entries[at].waits_for->ranks, std::vector{Rank{2}}) << at;
  }
}

TEST(FlightRecorder, KnowsWhatLanesCompute) {
  FlightRecorder recorder;
  recorder.computing(1, "forward of slice 3", TimePoint(std::chrono::seconds(5)));
  recorder.computing(0, "forward of slice 2", TimePoint(std::chrono::seconds(4)));
  recorder.computing(1, "backward of slice 3", TimePoint(std::chrono::seconds(6)));
  ASSERT_EQ(recorder.passes().size(), 2U);
  EXPECT_EQ(recorder.passes()[1].what, "backward of slice 3");
  EXPECT_EQ(recorder.passes()[1].since, TimePoint(std::chrono::seconds(6)));
  EXPECT_EQ(recorder.passes()[1].thread, std::this_thread::get_id());
  recorder.computing(0, "", TimePoint(std::chrono::seconds(7)));
  EXPECT_EQ(recorder.passes().size(), 1U);
}

TEST(Work, EndsOnceAndTellsEverybody) {
  const auto state = std::make_shared<WorkState>();
  const Work work(state);
  int before = 0;
  int after = 0;
  work.on_done([&](const Status& status) { before += status ? 1 : 100; });
  EXPECT_FALSE(work.done());
  EXPECT_EQ(before, 0);
  state->finish(ok());
  state->finish(fail(ErrorCode::kTimeout, "too late to count"));
  work.on_done([&](const Status& status) { after += status ? 1 : 100; });
  EXPECT_TRUE(work.wait());
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
}

TEST(Describe, SaysOperationDtypeAndShape) {
  std::vector<float> values(6);
  const TensorView view = view_of(std::span(values));
  EXPECT_EQ(describe(AllReduce{view, Reduce::kMax}), "all_reduce max F32 [6]");
  EXPECT_EQ(describe(Send{view, Rank{2}, 7}), "send F32 [6] to rank 2 tag 7");
  EXPECT_EQ(describe(Barrier{}), "barrier");
}

}  // namespace
}  // namespace muster::comm
