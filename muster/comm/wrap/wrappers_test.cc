#include "muster/comm/wrap/wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::comm {
namespace {

// Ends every operation when told to.
class FakeCommunicator final : public Communicator {
 public:
  const Group& group() const noexcept override { return group_; }
  Work submit(Op op, const OpOptions& options) override {
    submitted.emplace_back(describe(op), options);
    states.push_back(std::make_shared<WorkState>());
    return Work(states.back());
  }
  Result<CommunicatorPtr> split(int, int) override { return std::make_shared<FakeCommunicator>(); }
  void abort(Error) noexcept override {}
  Result<Buffer> allocate(std::size_t) override { return fail(ErrorCode::kUnsupported, "none"); }

  std::vector<std::pair<std::string, OpOptions>> submitted;
  std::vector<std::shared_ptr<WorkState>> states;

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
