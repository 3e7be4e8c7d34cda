// Theory: what the papers say about each schedule's length holds when it is played.

#include "muster/layout/pipeline/times.h"

#include <gtest/gtest.h>

#include "muster/layout/pipeline/make.h"
#include "muster/layout/testing/pipeline_sizes.h"

namespace muster::layout {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct Played {
  PipelineSchedule schedule;
  ActionTimes times;
};

Played played(PipelineOptions options, const ChunkCost& model, LinkCost link = {}) {
  PipelineCosts costs = equal_costs(model, chunk_count(options).value());
  costs.link = link;
  if (options.kind == PipelineKind::kZbV) options.costs = costs;
  auto schedule = make_schedule(options).value();
  auto times = play(schedule, costs).value();
  return {std::move(schedule), std::move(times)};
}

// Of a stage with all its chunks, for one micro-batch: equal_costs gets p of them.
ChunkCost model_of(std::int32_t stages, int forward, int input, int weight) {
  return {stages * milliseconds(forward), stages * milliseconds(input),
          stages * milliseconds(weight)};
}

TEST(PipelineTheory, GPipeAnd1F1BWaitForOneStageLessThanThereAre) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    for (const PipelineKind kind : {PipelineKind::kGPipe, PipelineKind::k1F1B}) {
      const auto [schedule, times] = played({kind, p, m}, model_of(p, 10, 12, 7));
      EXPECT_EQ(makespan(times), (m + p - 1) * milliseconds(29)) << p << " " << m;
      EXPECT_EQ(step_period(times), makespan(times)) << "the first stage begins first, ends last";
    }
  });
}

TEST(PipelineTheory, ChunksDivideTheBubble) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    for (const std::int32_t v : {1, 2, 3, 4, 6}) {
      if (m < p) continue;
      const auto [schedule, times] =
          played({PipelineKind::kInterleaved, p, m, v}, model_of(p, 12, 24, 12));
      EXPECT_EQ(makespan(times) * v, (v * m + p - 1) * milliseconds(48))
          << p << " stages, " << m << " micro-batches, " << v << " chunks";
    }
  });
}

// Fewer micro-batches than stages: no better than (v·m+p-1), for they come round too early to fill
// the pipeline, and no worse than with one chunk.
TEST(PipelineTheory, ChunksHelpWithFewMicroBatchesToo) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    for (const std::int32_t v : {2, 3, 4}) {
      if (m >= p) continue;
      const auto [schedule, times] =
          played({PipelineKind::kInterleaved, p, m, v}, model_of(p, 12, 24, 12));
      EXPECT_GE(makespan(times) * v, (v * m + p - 1) * milliseconds(48));
      EXPECT_LE(makespan(times), (m + p - 1) * milliseconds(48));
    }
  });
}

TEST(PipelineTheory, ZbH1FillsThePartOfTheWeights) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    if (m < p) return;
    const auto [schedule, times] = played({PipelineKind::kZbH1, p, m}, model_of(p, 10, 10, 10));
    EXPECT_EQ(makespan(times), m * milliseconds(30) + (p - 1) * milliseconds(10)) << p << " " << m;
  });
}

// Bubble of ZB-V in the paper: p ticks less than nothing is left from m = 2p - 1 on.
TEST(PipelineTheory, ZbVHasNoBubbleWithEqualParts) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    const auto [schedule, times] = played({PipelineKind::kZbV, p, m}, model_of(p, 10, 10, 10));
    if (m >= 2 * p - 1) {
      EXPECT_EQ(step_period(times), m * milliseconds(30)) << p << " " << m;
    }
    EXPECT_LE(makespan(times), step_period(times) + (p - 1) * milliseconds(5));
  });
}

TEST(PipelineTheory, ZeroBubbleSchedulesAreNeverLongerThan1F1B) {
  for_many_sizes([](std::int32_t p, std::int32_t m) {
    for (const ChunkCost& model : {model_of(p, 10, 12, 7), model_of(p, 10, 10, 10)}) {
      const Duration plain = step_period(played({PipelineKind::k1F1B, p, m}, model).times);
      const Duration h1 = step_period(played({PipelineKind::kZbH1, p, m}, model).times);
      const Duration v = step_period(played({PipelineKind::kZbV, p, m}, model).times);
      EXPECT_LE(h1, plain);
      EXPECT_LE(v, h1) << p << " " << m;
    }
  });
}

TEST(PipelineTimes, AMessageTakesLatencyAndBytes) {
  ChunkCost model = model_of(2, 10, 12, 7);
  model.output_bytes = 1'000'000;
  const LinkCost link{milliseconds(1), 0.5e9};  // 2 ms a message
  const auto [schedule, times] = played({PipelineKind::k1F1B, 2, 1}, model, link);
  EXPECT_EQ(times[1][0].begin, milliseconds(13));
  EXPECT_EQ(times[1][1].end, milliseconds(42));
  EXPECT_EQ(times[0][1].begin, milliseconds(45));
  EXPECT_EQ(makespan(times), milliseconds(64));
}

// The next message has to wait for the link, its latency not.
TEST(PipelineTimes, MessagesOfALinkFollowEachOther) {
  ChunkCost model = model_of(2, 10, 10, 10);
  model.output_bytes = 1'000'000;
  const LinkCost link{milliseconds(1), 1e6 / 0.015};  // 15 ms a message
  const auto [schedule, times] = played({PipelineKind::kGPipe, 2, 3}, model, link);
  EXPECT_EQ(times[1][0].begin, milliseconds(10 + 15 + 1));
  EXPECT_EQ(times[1][1].begin, milliseconds(10 + 30 + 1));
  EXPECT_EQ(times[1][2].begin, milliseconds(10 + 45 + 1));
}

TEST(PipelineTimes, SlowStageHoldsUpAll) {
  auto schedule = make_schedule({PipelineKind::k1F1B, 4, 8}).value();
  PipelineCosts costs = equal_costs(model_of(4, 10, 10, 10), 4);
  costs.chunks[2].forward = milliseconds(30);
  const Duration slow = makespan(play(schedule, costs).value());
  EXPECT_GE(slow, 8 * milliseconds(50));
  EXPECT_LE(slow, 8 * milliseconds(50) + 3 * milliseconds(50));
}

TEST(PipelineTimes, PartsOfNothingTakeNoTime) {
  const auto [schedule, times] = played({PipelineKind::kZbV, 3, 4}, {});
  EXPECT_EQ(makespan(times), nanoseconds(0));
  EXPECT_EQ(makespan({}), nanoseconds(0));
}

}  // namespace
}  // namespace muster::layout
