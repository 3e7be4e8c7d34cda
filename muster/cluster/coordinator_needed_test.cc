// What is learnt of heartbeats is no reason to give up whoever alone has the state.
#include "muster/cluster/testing/coordinator_world.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class NeededWorkerTest : public CoordinatorStateTest {
 protected:
  void begin(std::int32_t workers) {
    CoordinatorOptions options;
    options.policy.start_workers = options.policy.max_workers = workers;
    options.policy.heartbeat_timeout = seconds(10);
    options.policy.learns = true;
    state_ = std::make_unique<CoordinatorState>(options, now_, create_null_logger());
    for (std::int32_t worker = 0; worker < workers; ++worker)
      join(static_cast<PeerId>(worker + 1), worker);
    hear(workers, seconds(10));
    told();
  }
  // Of the first so many, and of no others.
  void hear(std::int32_t workers, Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      pass(milliseconds(200));
      for (std::int32_t worker = 0; worker < workers; ++worker)
        say(static_cast<PeerId>(worker + 1), Heartbeat{});
    }
  }
};

TEST_F(NeededWorkerTest, TheOnlyOneIsGivenAllTheTimeThereIs) {
  begin(1);
  pass(seconds(9));
  EXPECT_EQ(told(), Told{});
  say(1, Heartbeat{});
  pass(seconds(10));
  EXPECT_EQ(told(), Told{"silent 0"});
}

TEST_F(NeededWorkerTest, AHiccupOfAllIsNobodysDeath) {
  begin(3);
  say(1, Heartbeat{});
  pass(milliseconds(190));  // nobody is stopped in the same instant as the others
  say(3, Heartbeat{});
  pass(seconds(4));
  EXPECT_EQ(told(), Told{});
  hear(3, seconds(5));
  EXPECT_EQ(told(), Told{});
}

// Who is heard of unevenly may be silent for longer, but does not go on for that.
TEST_F(NeededWorkerTest, AHiccupOfAllIsNobodysDeathWhateverWasLearntOfEach) {
  begin(2);
  hear(1, milliseconds(600));
  hear(2, milliseconds(200));
  pass(seconds(3));
  EXPECT_EQ(told(), Told{});
  hear(2, seconds(5));
  EXPECT_EQ(told(), Told{});
}

TEST_F(NeededWorkerTest, WhomAnotherCanReplaceIsMissedSoonAlsoAfterAHiccupOfAll) {
  begin(2);
  hear(1, milliseconds(1400));
  EXPECT_EQ(told(), (Told{"silent 1", "generation 2"}));
  begin(2);
  pass(seconds(3));
  hear(1, milliseconds(800));
  EXPECT_EQ(told(), Told{}) << "the others may wake as well";
  hear(1, milliseconds(600));
  EXPECT_EQ(told(), (Told{"silent 1", "generation 2"}));
}

TEST_F(NeededWorkerTest, SoIsTheLastWhoHasTheStateWhateverNewcomersSay) {
  begin(2);
  perform(state_->on_closed(1, {}, now_));
  WorkerInfo anew{0, "h", "b", 2, {}};
  anew.has_state = false;
  say(3, Join{anew});
  told();
  for (int beat = 0; beat < 20; ++beat) {
    pass(milliseconds(200));
    say(3, Heartbeat{});
  }
  EXPECT_EQ(told(), Told{});
  pass(seconds(6));
  EXPECT_EQ(told().front(), "silent 1");
}

}  // namespace
}  // namespace muster::cluster
