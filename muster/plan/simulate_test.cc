#include "muster/plan/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/base/check.h"
#include "muster/layout/pipeline/make.h"

namespace muster::plan {
namespace {

using layout::ChunkCost;
using layout::PipelineKind;
using layout::PipelineOptions;
using std::chrono::milliseconds;

constexpr ChunkMemory kMemory{.activations = 100, .weight_inputs = 40, .state = 1000};

// `stage`: what one stage with all its chunks takes for a micro-batch.
PipelineSimulation run(PipelineOptions options, ChunkCost stage) {
  const std::int32_t chunks = layout::chunk_count(options).value();
  stage.forward *= options.stages;
  stage.backward_input *= options.stages;
  stage.backward_weight *= options.stages;
  const auto costs = layout::equal_costs(stage, chunks);
  if (options.kind == PipelineKind::kZbV) options.costs = costs;
  ChunkMemory model = kMemory;
  model.activations *= static_cast<std::uint64_t>(options.stages);
  model.weight_inputs *= static_cast<std::uint64_t>(options.stages);
  model.state *= static_cast<std::uint64_t>(options.stages);
  return simulate(layout::make_schedule(options).value(), costs, equal_memory(model, chunks))
      .value();
}

constexpr ChunkCost kEqual{milliseconds(12), milliseconds(12), milliseconds(12)};
constexpr ChunkCost kUsual{milliseconds(12), milliseconds(14), milliseconds(10)};

// The shares of the papers, for 1 to 8 stages and any number of micro-batches.
TEST(Bubble, IsTheTheorys) {
  for (std::int32_t p = 1; p <= 8; ++p) {
    for (const std::int32_t m : {1, 3, 7, 8, 13, 16, 21, 32}) {
      const double waits = p - 1;
      const double plain = waits / (m + waits);
      EXPECT_NEAR(run({PipelineKind::kGPipe, p, m}, kUsual).bubble(), plain, 1e-9);
      EXPECT_NEAR(run({PipelineKind::k1F1B, p, m}, kUsual).bubble(), plain, 1e-9);
      if (m < p) continue;
      for (const std::int32_t v : {2, 3, 4})
        EXPECT_NEAR(run({PipelineKind::kInterleaved, p, m, v}, kEqual).bubble(),
                    waits / (v * m + waits), 1e-9)
            << p << " " << m << " " << v;
      // (p-1)(F+B-W) of m(F+B+W) + that, where F = B = W: a third.
      EXPECT_NEAR(run({PipelineKind::kZbH1, p, m}, kEqual).bubble(), waits / 3 / (m + waits / 3),
                  1e-9);
      if (m < 2 * p - 1) continue;
      EXPECT_NEAR(run({PipelineKind::kZbV, p, m}, kEqual).bubble_without_barrier(), 0, 1e-9);
    }
  }
}

// Parts that are not equal: what is left is at most what the parts differ by on each stage, twice.
TEST(Bubble, OfZbVIsSmallWithUnequalParts) {
  for (const std::int32_t p : {2, 3, 4, 5, 8}) {
    const auto simulation = run({PipelineKind::kZbV, p, 4 * p}, kUsual);
    EXPECT_LE(simulation.period, 4 * p * milliseconds(36) + (p - 1) * milliseconds(4));
    EXPECT_LT(simulation.bubble_without_barrier(),
              run({PipelineKind::kZbH1, p, 4 * p}, kUsual).bubble_without_barrier());
  }
}

TEST(Memory, OfAStageRisesAndFalls) {
  const auto simulation = run({PipelineKind::k1F1B, 2, 2}, kUsual);
  std::vector<std::pair<Duration, std::uint64_t>> first;
  for (const MemoryPoint& point : simulation.stages[0].memory)
    first.emplace_back(point.at, point.bytes);
  using Point = std::pair<Duration, std::uint64_t>;
  EXPECT_EQ(first, (std::vector<Point>{{milliseconds(0), 1100},
                                       {milliseconds(12), 1200},
                                       {milliseconds(72), 1100},
                                       {milliseconds(108), 1000}}));
  EXPECT_EQ(simulation.stages[0].peak_bytes, 1200u);
  EXPECT_EQ(simulation.stages[1].peak_bytes, 1100u);
  EXPECT_EQ(simulation.peak_bytes(), 1200u);
  EXPECT_EQ(simulation.peak_activations(), 2);
}

// GPipe holds all micro-batches, 1F1B as many as there are stages, ZB-V the same.
TEST(Memory, AtThePeakIsWhatTheScheduleHolds) {
  EXPECT_EQ(run({PipelineKind::kGPipe, 4, 12}, kEqual).peak_bytes(), 1000 + 12 * 100u);
  EXPECT_EQ(run({PipelineKind::k1F1B, 4, 12}, kEqual).peak_bytes(), 1000 + 4 * 100u);
  EXPECT_EQ(run({PipelineKind::k1F1B, 4, 12}, kEqual).stages.back().peak_bytes, 1100u);
  EXPECT_EQ(run({PipelineKind::kZbV, 4, 12}, kEqual).peak_bytes(), 1000 + 4 * 100u);
  EXPECT_EQ(run({PipelineKind::kInterleaved, 4, 12, 2}, kEqual).peak_bytes(),
            1000 + (4 * 2 + 3) * 50u);
}

// What a backward for the input sets free is not held until the weights' part.
TEST(Memory, BetweenTheBackwardsIsLess) {
  const auto last = run({PipelineKind::kZbH1, 4, 12}, kEqual).stages.back();
  EXPECT_EQ(last.peak_activations, 4);
  EXPECT_EQ(last.peak_bytes, 1000 + 100 + 3 * 40u);
}

TEST(Messages, AreCountedBySender) {
  PipelineOptions options{PipelineKind::kZbV, 3, 5};
  auto costs = layout::equal_costs({}, 6);
  for (auto& chunk : costs.chunks) chunk.output_bytes = 7;
  const auto simulation =
      simulate(layout::make_schedule(options).value(), costs, std::vector<ChunkMemory>(6)).value();
  // Stage 0: activations down, gradients of the way up. The last: both of the turn's neighbours.
  EXPECT_EQ(simulation.stages[0].sent_messages, 10);
  EXPECT_EQ(simulation.stages[1].sent_messages, 20);
  EXPECT_EQ(simulation.stages[2].sent_messages, 10);
  EXPECT_EQ(simulation.stages[1].sent_bytes, 140u);
  EXPECT_EQ(simulation.sent_bytes(), 280u);
  EXPECT_EQ(simulation.bubble(), 0) << "nothing to do is no bubble";
}

TEST(Simulate, RefusesWhatIsNoSchedule) {
  auto schedule = layout::make_schedule({PipelineKind::kZbH1, 2, 2}).value();
  schedule.actions[1].pop_back();  // a backward for the weights: nobody waits for it
  EXPECT_EQ(
      simulate(schedule, layout::equal_costs({}, 2), std::vector<ChunkMemory>(2)).error().code,
      ErrorCode::kInvalid);
  EXPECT_THROW((void)simulate(schedule, layout::equal_costs({}, 2), {}), LogicFault);
}

}  // namespace
}  // namespace muster::plan
