// Every schedule is proved by the checker and held to what its paper promises.

#include "muster/layout/pipeline/make.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "muster/base/ids.h"
#include "muster/layout/pipeline/check.h"
#include "muster/layout/testing/pipeline_sizes.h"

namespace muster::layout {
namespace {

using std::chrono::microseconds;

PipelineSchedule make(PipelineOptions options) {
  auto schedule = make_schedule(options);
  EXPECT_TRUE(schedule) << schedule.error().message;
  return schedule ? *std::move(schedule) : PipelineSchedule{};
}

// "F0 F1 B0 …", with the chunk's turn as a letter where there are several.
std::string text(const PipelineSchedule& schedule, int stage) {
  const auto own = schedule.chunks_of(Stage{stage});
  std::string all;
  for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) {
    if (!all.empty()) all += ' ';
    all += "FBIW"[static_cast<std::size_t>(action.kind)];
    all += std::to_string(to_int(action.micro_batch));
    const auto turn = std::ranges::find(own, action.chunk) - own.begin();
    if (own.size() > 1) all += static_cast<char>('a' + turn);
  }
  return all;
}

TEST(GPipe, GoesForwardWithAllAndThenBackward) {
  const auto schedule = make({PipelineKind::kGPipe, 2, 3});
  EXPECT_EQ(text(schedule, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(text(schedule, 1), "F0 F1 F2 B0 B1 B2");
}

TEST(OneForwardOneBackward, TakesTurnsAfterTheWarmUp) {
  const auto schedule = make({PipelineKind::k1F1B, 3, 4});
  EXPECT_EQ(text(schedule, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(schedule, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(schedule, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
}

TEST(Interleaved, IsMegatronsWhereStagesDivideMicroBatches) {
  const auto schedule = make({PipelineKind::kInterleaved, 2, 4, 2});
  EXPECT_EQ(text(schedule, 0), "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
  EXPECT_EQ(text(schedule, 1), "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

// The groups: 3 and 2, not 2, 2 and 1.
TEST(Interleaved, LeavesNoSmallGroupOver) {
  const auto schedule = make({PipelineKind::kInterleaved, 2, 5, 2});
  EXPECT_EQ(text(schedule, 1),
            "F0a F1a F2a F0b B0b F1b B1b F2b B2b F3a B0a F4a B1a F3b B2a F4b B3b B4b B3a B4a");
}

TEST(ZbH1, DelaysTheWeightsByTheStagesNumber) {
  const auto schedule = make({PipelineKind::kZbH1, 3, 4});
  EXPECT_EQ(text(schedule, 0), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  EXPECT_EQ(text(schedule, 1), "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3");
  EXPECT_EQ(text(schedule, 2), "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
}

// As in the paper's figure: full memory after the warm-up, then a forward, two backwards, in turns.
TEST(ZbV, GoesDownAndBackUp) {
  const auto schedule = make({PipelineKind::kZbV, 2, 4});
  EXPECT_EQ(text(schedule, 0),
            "F0a F1a F2a F0b I0b W0b F1b I1b W1b F3a I0a W0a F2b I2b W2b I1a W1a F3b I3b I2a W3b "
            "I3a W2a W3a");
  EXPECT_EQ(text(schedule, 1),
            "F0a F0b F1a F1b I0b W0b F2a I0a W0a F2b I1b W1b F3a I1a W1a F3b I2b I2a I3b I3a W2b "
            "W2a W3b W3a");
}

// Every schedule of those sizes, with 1 to 5 chunks a stage where it may have several.
template <class Visit>
void for_many_schedules(Visit visit) {
  for_many_sizes([&](std::int32_t stages, std::int32_t micro_batches) {
    for (const PipelineKind kind : kPipelineKinds) {
      const std::int32_t most = kind == PipelineKind::kInterleaved ? 5 : 1;
      for (std::int32_t chunks = 1; chunks <= most; ++chunks) {
        PipelineOptions options{kind, stages, micro_batches};
        if (kind == PipelineKind::kInterleaved) options.chunks_per_stage = chunks;
        SCOPED_TRACE(testing::Message() << to_string(kind) << ", " << stages << " stages, "
                                        << chunks << " chunks, " << micro_batches);
        visit(make(options));
      }
    }
  });
}

TEST(EverySchedule, PassesTheChecker) {
  for_many_schedules([](const PipelineSchedule& schedule) {
    const Status good = check(schedule);
    EXPECT_TRUE(good) << good.error().message;
  });
}

TEST(EverySchedule, TakesMicroBatchesInOrder) {
  for_many_schedules([](const PipelineSchedule& schedule) {
    std::map<std::pair<ActionKind, Chunk>, std::int32_t> next;
    for (const auto& actions : schedule.actions)
      for (const Action& action : actions)
        ASSERT_EQ((next[{action.kind, action.chunk}]++), to_int(action.micro_batch));
  });
}

TEST(EverySchedule, HoldsNoMoreThanItMay) {
  for_many_sizes([](std::int32_t stages, std::int32_t micro_batches) {
    const auto peaks = [&](PipelineKind kind) {
      return peak_activations(make({kind, stages, micro_batches}));
    };
    const auto gpipe = peaks(PipelineKind::kGPipe), one = peaks(PipelineKind::k1F1B),
               h1 = peaks(PipelineKind::kZbH1), v = peaks(PipelineKind::kZbV);
    for (std::int32_t stage = 0; stage < stages; ++stage) {
      const auto at = static_cast<std::size_t>(stage);
      EXPECT_EQ(gpipe[at], micro_batches);
      EXPECT_EQ(one[at], std::min(micro_batches, stages - stage));
      EXPECT_EQ(h1[at], std::min(micro_batches, stages));
      EXPECT_LE(v[at], std::min(2 * micro_batches, 2 * stages));
    }
  });
}

// What interleaving costs: the first stage holds (1 + (p-1)/(p·v)) times as much as with 1F1B.
TEST(Interleaved, HoldsWhatMegatronSays) {
  for (const std::int32_t stages : {2, 3, 4, 8}) {
    for (const std::int32_t chunks : {2, 3, 4}) {
      const auto peaks =
          peak_activations(make({PipelineKind::kInterleaved, stages, 4 * stages, chunks}));
      EXPECT_EQ(peaks.front(), stages * chunks + stages - 1);
    }
  }
}

TEST(ZbV, KeepsToAnyLimit) {
  for (const std::int32_t stages : {1, 2, 3, 5}) {
    for (const std::int32_t micro_batches : {1, stages, 2 * stages + 1}) {
      for (std::int32_t limit = 2; limit <= 2 * stages + 2; ++limit) {
        for (const ChunkCost& cost :
             {ChunkCost{microseconds(1), microseconds(1), microseconds(1)},
              ChunkCost{microseconds(10), microseconds(12), microseconds(7)}}) {
          PipelineOptions options{PipelineKind::kZbV, stages, micro_batches};
          options.memory_limit = limit;
          options.costs = equal_costs(cost, 2 * stages);
          options.costs->chunks.front().forward *= 2;  // an embedding
          options.costs->link.latency = microseconds(1);
          const auto schedule = make(options);
          EXPECT_TRUE(check(schedule));
          EXPECT_LE(std::ranges::max(peak_activations(schedule)), limit);
        }
      }
    }
  }
}

std::string why_not_made(const PipelineOptions& options) {
  const auto schedule = make_schedule(options);
  EXPECT_FALSE(schedule);
  if (schedule) return "";
  EXPECT_EQ(schedule.error().code, ErrorCode::kInvalid);
  return schedule.error().message;
}

TEST(MakeSchedule, SaysWhatDoesNotFit) {
  EXPECT_EQ(why_not_made({PipelineKind::k1F1B, 0, 4}),
            "[layout/pipeline] 0 stages; expected 1 to 4096");
  EXPECT_EQ(why_not_made({PipelineKind::k1F1B, 4, 0}),
            "[layout/pipeline] 0 micro-batches; expected 1 to 65536");
  EXPECT_EQ(why_not_made({PipelineKind::k1F1B, 4, 4, 2}),
            "[layout/pipeline] 1f1b has one chunk a stage, not 2; the schedule with more is "
            "interleaved");
  EXPECT_EQ(why_not_made({PipelineKind::kZbV, 4, 4, 3}),
            "[layout/pipeline] zb_v places 2 chunks on each stage, not 3");
  EXPECT_EQ(why_not_made({PipelineKind::kInterleaved, 4096, 65536, 1000}),
            "[layout/pipeline] 4096 stages x 1000 chunks x 65536 micro-batches are too many for a "
            "schedule");
  EXPECT_EQ(why_not_made(
                {.kind = PipelineKind::kZbV, .stages = 4, .micro_batches = 4, .memory_limit = 1}),
            "[layout/pipeline] a memory limit of 1; zb_v needs to hold at least 2 activations, one "
            "of each chunk");
  EXPECT_EQ(why_not_made(
                {.kind = PipelineKind::kZbH1, .stages = 4, .micro_batches = 4, .memory_limit = 5}),
            "[layout/pipeline] zb_h1 takes no memory limit; zb_v does");
  PipelineOptions options{PipelineKind::kZbV, 4, 4};
  options.costs = equal_costs({}, 4);
  EXPECT_EQ(why_not_made(options), "[layout/pipeline] costs of 4 chunks; zb_v on 4 stages has 8");
}

}  // namespace
}  // namespace muster::layout
