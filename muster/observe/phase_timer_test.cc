#include "muster/observe/phase_timer.h"

#include <gtest/gtest.h>

#include <thread>

#include "muster/testing/fake_clock.h"

namespace muster::observe {
namespace {

using std::chrono::milliseconds;

TEST(PhaseTimer, ChargesEachPhaseItsTime) {
  testing::FakeClock clock;
  PhaseTimer timer(clock);
  {
    const auto scope = timer.measure(Phase::kForward);
    clock.advance(milliseconds(30));
  }
  {
    const auto scope = timer.measure(Phase::kExposedComm);
    clock.advance(milliseconds(10));
  }
  timer.add(Phase::kForward, milliseconds(5));
  timer.add_bytes_on_wire(100);
  clock.advance(milliseconds(60));
  const PhaseTimes times = timer.finish_step();
  EXPECT_EQ(times[Phase::kForward], milliseconds(35));
  EXPECT_EQ(times[Phase::kExposedComm], milliseconds(10));
  EXPECT_EQ(times[Phase::kUpdate], Duration{0});
  EXPECT_EQ(times.step, milliseconds(100));
  EXPECT_EQ(times.bytes_on_wire, 100u);
}

TEST(PhaseTimer, BeginsEachStepAtZero) {
  testing::FakeClock clock;
  PhaseTimer timer(clock);
  timer.add(Phase::kUpdate, milliseconds(5));
  timer.add_bytes_on_wire(1);
  clock.advance(milliseconds(7));
  timer.finish_step();
  clock.advance(milliseconds(3));
  const PhaseTimes times = timer.finish_step();
  EXPECT_EQ(times[Phase::kUpdate], Duration{0});
  EXPECT_EQ(times.bytes_on_wire, 0u);
  EXPECT_EQ(times.step, milliseconds(3));
}

TEST(PhaseTimer, CountsFromSeveralThreads) {
  testing::FakeClock clock;
  PhaseTimer timer(clock);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&timer] {
      for (int j = 0; j < 1000; ++j) timer.add(Phase::kBackward, Duration{1});
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(timer.finish_step()[Phase::kBackward], Duration{4000});
}

TEST(PhaseTimes, BecomeMetrics) {
  PhaseTimes times;
  times.step = milliseconds(200);
  times.phases[static_cast<std::size_t>(Phase::kExposedComm)] = milliseconds(50);
  times.phases[static_cast<std::size_t>(Phase::kDataWait)] = milliseconds(20);
  times.bytes_on_wire = 4096;
  Metrics metrics;
  times.append_to(metrics);
  EXPECT_DOUBLE_EQ(*metrics.find("perf/step_time_s"), 0.2);
  EXPECT_DOUBLE_EQ(*metrics.find("perf/comm_fraction"), 0.25);
  EXPECT_DOUBLE_EQ(*metrics.find("perf/data_wait_fraction"), 0.1);
  EXPECT_DOUBLE_EQ(*metrics.find("perf/bytes_on_wire"), 4096);
  EXPECT_DOUBLE_EQ(*metrics.find("phase/exposed_comm_s"), 0.05);
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    EXPECT_TRUE(metrics.find(metric_name(static_cast<Phase>(i))));
  }
}

}  // namespace
}  // namespace muster::observe
