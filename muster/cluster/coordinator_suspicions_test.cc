// What the coordinator makes of workers that cannot work together.
#include <gmock/gmock.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ringbuffer_sink.h>

#include "muster/base/phases.h"
#include "muster/base/units.h"
#include "muster/cluster/testing/coordinator_world.h"

namespace muster::cluster {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class SuspicionTest : public ElasticCoordinatorTest {
 protected:
  SuspicionTest() {
    events_.on_lost = [this](std::int32_t worker, const Error& why) {
      note(why.code == ErrorCode::kUnavailable ? "out of reach" : "lost", worker);
    };
  }
  void suspect(PeerId peer, std::int32_t rank) {
    say(peer, Suspect{state_->generation(), fail(ErrorCode::kTimeout, "no answer", Rank{rank})});
  }
  void wait() {
    now_ = state_->next_clock(now_);
    perform(state_->on_clock(now_));
  }
};

TEST_F(SuspicionTest, FirstTheSameTryAgain) {
  suspect(1, 1);
  suspect(2, 0);
  EXPECT_EQ(told(), Told{}) << "perhaps one of them is dead";
  wait();
  EXPECT_EQ(told(), Told{"generation 2"});
  EXPECT_EQ(last_welcome(3).members.size(), 3U);
  EXPECT_FALSE(last_welcome(3).planned);
}

TEST_F(SuspicionTest, WhoWaitedInVainIsLookedIntoBeforeAnybodyGivesUp) {
  events_.on_no_answer = [this] { told_.emplace_back("no answer"); };
  say(2, Suspect{state_->generation(), fail(ErrorCode::kPeerLost, "it is gone", Rank{1})});
  EXPECT_EQ(told(), Told{}) << "a death may explain it";
  suspect(1, 1);
  EXPECT_EQ(told(), Told{"no answer"});
  wait();
  EXPECT_EQ(told(), Told{"generation 2"});
}

TEST_F(SuspicionTest, ThenTheyGoOnWithoutOne) {
  suspect(1, 1);
  wait();
  suspect(1, 1);
  suspect(2, 0);
  suspect(3, 1);
  told();
  wait();
  EXPECT_EQ(told(), (Told{"out of reach 1", "generation 3"}));
  EXPECT_EQ(last_welcome(3).members.size(), 2U);
  EXPECT_EQ(closed_.at(2).code, ErrorCode::kStale);
}

TEST_F(SuspicionTest, WhatIsSaidOfAnotherOneIsNotQuoted) {
  std::string told_of;
  events_.on_lost = [&](std::int32_t, const Error& why) { told_of = why.message; };
  suspect(1, 1);
  wait();
  suspect(1, 1);
  suspect(3, 1);
  say(2, Suspect{state_->generation(), fail(ErrorCode::kTimeout, "a cut link", Rank{0})});
  wait();
  EXPECT_THAT(told_of, HasSubstr("worker 1 (host h, pid 1) lives"));
  EXPECT_THAT(told_of, EndsWith("it hangs: no answer"));
}

// Behind a firewall they could not even begin, and who is given up has no last words.
TEST_F(SuspicionTest, ALinkThatNeverWasIsToldBesidesTheLoss) {
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10);
  CoordinatorOptions options;
  options.policy.start_workers = options.policy.max_workers = 3;
  state_ = std::make_unique<CoordinatorState>(options, now_,
                                              std::make_shared<spdlog::logger>("test", log));
  for (std::int32_t worker = 0; worker < 3; ++worker) join(static_cast<PeerId>(worker + 1), worker);
  pass(seconds(5));
  for (int time = 0; time < 2; ++time) {
    EXPECT_TRUE(log->last_raw().empty()) << "links heal";
    const Generation generation = state_->generation();
    say(2, Suspect{generation,
                   fail(ErrorCode::kUnavailable, "rank 2 cannot reach rank 1; a wall", Rank{2})});
    wait();
  }
  ASSERT_EQ(log->last_raw().size(), 1U);
  EXPECT_THAT(log->last_formatted().front(), HasSubstr("rank 2 cannot reach rank 1; a wall"));
}

TEST_F(SuspicionTest, WhereAllWereStoppedTheSameTryAgain) {
  suspect(1, 1);
  wait();
  now_ += seconds(20);  // twice what a worker may be silent; it does not run itself
  suspect(1, 1);        // its time was up when it woke
  suspect(2, 0);
  say(3, Heartbeat{});
  told();
  wait();
  EXPECT_EQ(told(), Told{"generation 3"});
  EXPECT_EQ(last_welcome(3).members.size(), 3U);
}

// A disk that stands still is no reason to do without a worker, until its time is up.
TEST_F(SuspicionTest, WhoWaitsForItsDataIsTriedWithAgain) {
  const Heartbeat waits{{Step{7}, std::string(kWaitingForData), {}}};
  say(2, waits);
  const TimePoint began = now_;
  while (now_ - began < seconds(54)) {
    for (const PeerId peer : {1, 3}) say(peer, Heartbeat{});
    pass(seconds(4));
    say(2, waits);
    suspect(1, 1);
    suspect(3, 1);
    told();
    wait();
    EXPECT_THAT(told(), ElementsAre(HasSubstr("generation"))) << to_seconds(now_ - began);
    EXPECT_EQ(last_welcome(2).members.size(), 3U);
  }
  for (const PeerId peer : {1, 3}) say(peer, Heartbeat{});
  pass(seconds(4));
  say(2, waits);
  suspect(1, 1);
  told();
  wait();
  EXPECT_THAT(told(), ElementsAre("out of reach 1", HasSubstr("generation")));
}

// What it waited for in an earlier step came.
TEST_F(SuspicionTest, EveryStepHasTheWholeTimeForItsData) {
  for (int step = 0; step < 40; ++step) {
    for (const PeerId peer : {1, 3}) say(peer, Heartbeat{});
    say(2, Heartbeat{{Step{step}, std::string(kWaitingForData), {}}});
    pass(seconds(3));
    say(2, Heartbeat{{Step{step}, std::string(kWaitingForData), {}}});
    suspect(1, 1);
    told();
    wait();
    EXPECT_THAT(told(), ElementsAre(HasSubstr("generation"))) << step;
  }
  say(2, Heartbeat{{Step{40}, std::string(kUpdating), {}}});
  suspect(1, 1);
  told();
  wait();
  EXPECT_THAT(told(), ElementsAre("out of reach 1", HasSubstr("generation"))) << "it has its data";
}

TEST_F(SuspicionTest, ADeathExplainsEverything) {
  suspect(1, 1);
  close(2);
  EXPECT_EQ(told(), (Told{"lost 1", "generation 2"}));
  suspect(3, 0);
  wait();
  EXPECT_EQ(told(), Told{"generation 3"}) << "the dead one was not sent away";
}

// Three of three are needed: between a death and the next generation the number is another's.
TEST_F(SuspicionTest, WhoComesInAnothersPlaceIsNotBlamedForItsAbsence) {
  CoordinatorOptions options;
  options.policy.start_workers = options.policy.max_workers = options.policy.min_workers = 4;
  state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
  for (const PeerId peer : {1, 2, 3, 4}) join(peer, static_cast<std::int32_t>(peer) - 1);
  close(2);
  close(3);
  suspect(1, 1);
  join(5, 1);
  told();
  for (int turn = 0; turn < 3; ++turn) {  // the first time all would try again
    suspect(1, 1);
    suspect(4, 1);
    suspect(4, 2);
    for (const PeerId peer : {1, 4, 5}) say(peer, Heartbeat{});
    pass(seconds(2));
  }
  EXPECT_EQ(told(), Told{});
  join(6, 2);
  EXPECT_EQ(told(), Told{"generation 2"});
}

TEST_F(SuspicionTest, WhatWasSaidOfAnEarlierGenerationIsForgotten) {
  close(2);
  told();
  say(1, Suspect{Generation{1}, fail(ErrorCode::kTimeout, "no answer", Rank{2})});
  now_ += seconds(3);
  say(1, Heartbeat{});
  say(3, Heartbeat{});
  perform(state_->on_clock(now_));
  EXPECT_EQ(told(), Told{});
}

}  // namespace
}  // namespace muster::cluster
