#include "muster/layout/pipeline/schedule.h"

#include <gtest/gtest.h>

#include "muster/layout/pipeline/make.h"

namespace muster::layout {
namespace {

TEST(PipelineKind, IsFoundByItsName) {
  for (const PipelineKind kind : kPipelineKinds)
    EXPECT_EQ(pipeline_kind_from_string(to_string(kind)).value(), kind);
  EXPECT_EQ(pipeline_kind_from_string("ZB-V").value(), PipelineKind::kZbV);
  EXPECT_EQ(pipeline_kind_from_string("1F1B").value(), PipelineKind::k1F1B);
  EXPECT_EQ(pipeline_kind_from_string("zb_h2").error().message,
            "[layout/pipeline] no schedule `zb_h2`; did you mean `zb_h1`?");
  EXPECT_EQ(pipeline_kind_from_string("dualpipe").error().message,
            "[layout/pipeline] no schedule `dualpipe`; there are gpipe, 1f1b, interleaved, zb_h1, "
            "zb_v");
}

TEST(PipelinePlacement, GoesRoundOrBack) {
  const auto numbers = [](const std::vector<Stage>& stages) {
    std::vector<int> plain;
    for (const Stage stage : stages) plain.push_back(static_cast<int>(stage));
    return plain;
  };
  EXPECT_EQ(numbers(round_robin_placement(3, 2)), (std::vector{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(numbers(v_placement(3)), (std::vector{0, 1, 2, 2, 1, 0}));
  const PipelineSchedule schedule{.stage_of = v_placement(3), .actions = {}};
  EXPECT_EQ(schedule.chunks_of(Stage{1}), (std::vector{Chunk{1}, Chunk{4}}));
}

Action action(ActionKind kind, int micro_batch, int chunk) {
  return {kind, MicroBatch{micro_batch}, Chunk{chunk}};
}

TEST(PipelineMessages, PassWhereTheModelPassesToAnotherStage) {
  PipelineSchedule schedule{.micro_batches = 3, .stage_of = v_placement(3), .actions = {}};
  schedule.actions.resize(3);
  EXPECT_EQ(received_before(schedule, action(ActionKind::kForward, 2, 0)), std::nullopt);
  EXPECT_EQ(received_before(schedule, action(ActionKind::kForward, 2, 1)),
            (Message{MessageKind::kActivation, Stage{0}, Stage{1}, MicroBatch{2}, Chunk{0}}));
  EXPECT_EQ(sent_after(schedule, action(ActionKind::kForward, 2, 0)),
            received_before(schedule, action(ActionKind::kForward, 2, 1)));
  EXPECT_EQ(sent_after(schedule, action(ActionKind::kForward, 2, 2)), std::nullopt)
      << "both chunks are on the last stage";
  EXPECT_EQ(sent_after(schedule, action(ActionKind::kForward, 2, 5)), std::nullopt);
  EXPECT_EQ(received_before(schedule, action(ActionKind::kBackward, 2, 5)), std::nullopt);
  EXPECT_EQ(received_before(schedule, action(ActionKind::kBackwardInput, 1, 3)),
            (Message{MessageKind::kGradient, Stage{1}, Stage{2}, MicroBatch{1}, Chunk{3}}));
  EXPECT_EQ(sent_after(schedule, action(ActionKind::kBackward, 1, 4)),
            (Message{MessageKind::kGradient, Stage{1}, Stage{2}, MicroBatch{1}, Chunk{3}}));
  EXPECT_EQ(sent_after(schedule, action(ActionKind::kBackwardWeight, 1, 4)), std::nullopt);
  EXPECT_EQ(received_before(schedule, action(ActionKind::kBackwardWeight, 1, 4)), std::nullopt);
}

}  // namespace
}  // namespace muster::layout
