#include "muster/observe/tracer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/testing/fake_clock.h"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

// Every phase, pass and operation takes one millisecond.
class TracerTest : public ::testing::Test {
 protected:
  Tracer tracer(TracerOptions options) {
    return Tracer(clock_, options, [this](const std::vector<Span>& spans) {
      ++deliveries_;
      delivered_.insert(delivered_.end(), spans.begin(), spans.end());
    });
  }
  std::vector<std::string> names(Track track) const {
    std::vector<std::string> all;
    for (const Span& span : delivered_)
      if (span.track == track) all.push_back(span.name);
    return all;
  }
  void pass() { clock_.advance(milliseconds(1)); }

  testing::FakeClock clock_{TimePoint{}};
  std::vector<Span> delivered_;
  int deliveries_ = 0;
};

TEST_F(TracerTest, TellsStepsPhasesAndWhatLanesCompute) {
  Tracer traced = tracer({.worker = 3});
  traced.enter(Generation{2}, Rank{1});
  traced.doing(Step{7}, "waiting for data");
  pass();
  traced.doing(Step{7}, "computing");
  traced.computing(1, "forward of slice 5");
  pass();
  traced.computing(1, "backward of slice 5");
  pass();
  traced.computing(1, "");
  pass();
  traced.doing(Step{8}, "waiting for data");
  traced.finish();
  EXPECT_EQ(names(Track::kSteps), (std::vector<std::string>{"step", "step"}));
  EXPECT_EQ(names(Track::kPhases),
            (std::vector<std::string>{"waiting for data", "computing", "waiting for data"}));
  EXPECT_EQ(names(Track::kLane), (std::vector<std::string>{"forward", "backward"}));
  const auto backward = std::ranges::find(delivered_, "backward", &Span::name);
  EXPECT_EQ(*backward, (Span{.track = Track::kLane,
                             .lane = 1,
                             .name = "backward",
                             .detail = "slice 5",
                             .worker = 3,
                             .rank = Rank{1},
                             .step = Step{7},
                             .generation = Generation{2},
                             .begin = TimePoint{} + milliseconds(2),
                             .duration = milliseconds(1)}));
  const auto step = std::ranges::find(delivered_, "step", &Span::name);
  EXPECT_EQ(step->duration, milliseconds(4));
}

TEST_F(TracerTest, PutsOperationsAtTheSameTimeOnDifferentLanes) {
  Tracer traced = tracer({});
  const auto operation = [&](int from, int until) {
    traced.operated({.name = "all_reduce",
                     .begin = TimePoint{} + milliseconds(from),
                     .duration = milliseconds(until - from)});
  };
  operation(1, 3);
  operation(2, 4);
  operation(3, 5);
  operation(0, 6);
  traced.finish();
  std::vector<std::int32_t> lanes;
  for (const Span& span : delivered_) lanes.push_back(span.lane);
  EXPECT_EQ(lanes, (std::vector<std::int32_t>{0, 1, 0, 2}));
}

TEST_F(TracerTest, DeliversNowAndThenBetweenPhases) {
  Tracer traced = tracer({.deliver_every = milliseconds(10)});
  for (int step = 1; step <= 25; ++step) {
    traced.doing(Step{step}, "waiting for data");
    pass();
  }
  EXPECT_EQ(deliveries_, 2);
  traced.finish();
  EXPECT_EQ(names(Track::kSteps).size(), 25u);
}

TEST_F(TracerTest, TellsWhatBreaksOffFromASecondStep) {
  Tracer traced = tracer({});
  traced.doing(Step{4}, "comparing replicas");
  for (const Step step : {Step{5}, Step{6}}) {
    traced.doing(step, "waiting for data");
    traced.computing(0, "backward of slice 1");
    pass();
  }
  traced.doing(Step{5}, "waiting for the next generation");
  pass();
  traced.doing(Step{6}, "waiting for data");
  traced.finish();
  EXPECT_EQ(names(Track::kSteps),
            (std::vector<std::string>{"start", "step", "broken off", "recovery", "step"}));
  EXPECT_EQ(names(Track::kLane), (std::vector<std::string>{"backward", "backward"}));
  EXPECT_EQ(delivered_.back().step, Step{6});
}

TEST_F(TracerTest, TellsOfARecoveryBetweenTwoSteps) {
  Tracer traced = tracer({.steps = 2});
  traced.doing(Step{5}, "waiting for data");
  pass();
  traced.doing(Step{5}, "comparing replicas");
  traced.doing(Step{5}, "waiting for the next generation");
  traced.doing(Step{5}, "catching up");
  pass();
  traced.doing(Step{6}, "waiting for data");
  traced.finish();
  EXPECT_EQ(names(Track::kSteps), (std::vector<std::string>{"step", "recovery", "step"}));
}

TEST_F(TracerTest, DeliversInALongPhaseToo) {
  Tracer traced = tracer({.deliver_every = milliseconds(10)});
  traced.doing(Step{1}, "waiting for data");
  for (int i = 0; i < 25; ++i) {
    traced.computing(0, "evaluation of slice 1");
    pass();
  }
  EXPECT_EQ(deliveries_, 2);
  for (int i = 0; i < 5000; ++i) traced.computing(0, "evaluation of slice 2");
  EXPECT_EQ(deliveries_, 4);  // as many wait
  traced.finish();
  EXPECT_EQ(names(Track::kLane).size(), 5025u);
}

TEST_F(TracerTest, KnowsWhoseStepAnOperationWas) {
  Tracer traced = tracer({});
  traced.doing(Step{1}, "waiting for data");
  const TimePoint began = clock_.now();
  pass();
  traced.doing(Step{2}, "waiting for data");  // sooner than it was told that it had ended
  traced.operated({.name = "all_reduce", .begin = began, .duration = milliseconds(1)});
  traced.finish();
  EXPECT_EQ(std::ranges::find(delivered_, "all_reduce", &Span::name)->step, Step{1});
}

TEST_F(TracerTest, EndsAfterItsSteps) {
  Tracer traced = tracer({.steps = 2});
  for (int step = 4; step <= 9; ++step) {
    traced.doing(Step{step}, "waiting for data");
    traced.computing(0, "forward");
    pass();
    traced.computing(0, "");
    traced.operated({.name = "all_reduce"});
  }
  EXPECT_EQ(names(Track::kSteps).size(), 2u);  // at once, not at the end of the training
  traced.finish();
  EXPECT_EQ(names(Track::kSteps).size(), 2u);
  EXPECT_EQ(names(Track::kPhases).size(), 2u);
  EXPECT_EQ(names(Track::kLane).size(), 2u);
  EXPECT_EQ(names(Track::kCommunication).size(), 2u);
}

}  // namespace
}  // namespace muster::observe
