#include "muster/layout/pipeline/check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "muster/layout/pipeline/make.h"

namespace muster::layout {
namespace {

PipelineSchedule good() { return make_schedule({PipelineKind::kZbH1, 2, 2}).value(); }

std::string why_wrong(const PipelineSchedule& schedule) {
  const Status status = check(schedule);
  EXPECT_FALSE(status);
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalid);
  return status.error().message;
}

TEST(CheckPipeline, AcceptsWhatIsWhole) { EXPECT_TRUE(check(good())); }

TEST(CheckPipeline, FindsAnActionThatIsMissing) {
  auto schedule = good();
  schedule.actions[1].pop_back();  // a backward for the weights
  EXPECT_EQ(why_wrong(schedule),
            "[layout/pipeline] zb_h1 schedule: micro-batch 1 does not go forward and backward "
            "through chunk 1 exactly once");
}

TEST(CheckPipeline, FindsAnActionTwice) {
  auto schedule = good();
  schedule.actions[0].push_back(schedule.actions[0].front());
  EXPECT_EQ(why_wrong(schedule),
            "[layout/pipeline] zb_h1 schedule: stage 0: forward of micro-batch 0 on chunk 0 comes "
            "more than once");
}

TEST(CheckPipeline, FindsABackwardBesideItsParts) {
  auto schedule = good();
  schedule.actions[0].push_back({ActionKind::kBackward, MicroBatch{0}, Chunk{0}});
  EXPECT_NE(why_wrong(schedule).find("micro-batch 0 does not go"), std::string::npos);
}

TEST(CheckPipeline, FindsAnActionOnTheWrongStage) {
  auto schedule = good();
  schedule.actions[1].push_back(schedule.actions[0].front());
  EXPECT_EQ(why_wrong(schedule),
            "[layout/pipeline] zb_h1 schedule: stage 1: forward of micro-batch 0 on chunk 0 "
            "belongs to stage 0");
}

TEST(CheckPipeline, FindsWhatDoesNotExist) {
  auto schedule = good();
  schedule.actions[1].push_back({ActionKind::kForward, MicroBatch{2}, Chunk{1}});
  EXPECT_NE(why_wrong(schedule).find("does not exist: there are 2 micro-batches and 2 chunks"),
            std::string::npos);
  schedule.stage_of[1] = Stage{2};
  EXPECT_EQ(why_wrong(schedule), "[layout/pipeline] zb_h1 schedule: chunk 1 is on stage 2 of 2");
  schedule.stage_of[1] = Stage{0};
  EXPECT_EQ(why_wrong(schedule), "[layout/pipeline] zb_h1 schedule: stage 1 has no chunk");
  EXPECT_EQ(why_wrong({}), "[layout/pipeline] 1f1b schedule: it has no stages");
}

TEST(CheckPipeline, FindsStagesThatWaitForEachOther) {
  auto schedule = good();
  // Stage 0 wants the gradient of micro-batch 0 before it sends micro-batch 0.
  auto& first = schedule.actions[0];
  std::ranges::rotate(first, std::ranges::find(first, ActionKind::kBackwardInput, &Action::kind));
  EXPECT_EQ(why_wrong(schedule),
            "[layout/pipeline] the zb_h1 schedule never ends: stage 0 is at the backward for the "
            "input of micro-batch 0 on chunk 0 and waits for the forward on chunk 0; stage 1 is at "
            "the forward of micro-batch 0 on chunk 1 and waits for the forward on chunk 0");
}

TEST(CheckPipeline, FindsWeightsBeforeTheirInput) {
  auto schedule = good();
  auto& last = schedule.actions[1];
  std::swap(last[1], *std::ranges::find(last, ActionKind::kBackwardWeight, &Action::kind));
  EXPECT_NE(why_wrong(schedule).find("waits for the backward for the input on chunk 1"),
            std::string::npos);
}

// Nobody waits for ever, but stage 1 would be handed the wrong micro-batch.
TEST(CheckPipeline, FindsMessagesOutOfOrder) {
  auto schedule = make_schedule({PipelineKind::kGPipe, 2, 2}).value();
  std::swap(schedule.actions[1][0], schedule.actions[1][1]);
  EXPECT_EQ(
      why_wrong(schedule),
      "[layout/pipeline] gpipe schedule: stage 0 sends stage 1 micro-batch 0 of chunk 0 where "
      "it wants micro-batch 1 of chunk 0");
}

TEST(PeakActivations, CountsFromForwardToTheEndOfTheBackward) {
  EXPECT_EQ(peak_activations(make_schedule({PipelineKind::k1F1B, 3, 5}).value()),
            (std::vector{3, 2, 1}));
  EXPECT_EQ(peak_activations(make_schedule({PipelineKind::kZbH1, 3, 5}).value()),
            (std::vector{3, 3, 3}));
}

}  // namespace
}  // namespace muster::layout
