#include "muster/plan/question.h"

#include <gtest/gtest.h>

namespace muster::plan {
namespace {

using layout::PipelineKind;
using std::chrono::milliseconds;

PipelineQuestion usual_question() {
  PipelineQuestion question;
  question.stage = {milliseconds(10), milliseconds(10), milliseconds(10)};
  question.stage_memory = {.activations = 100, .weight_inputs = 100, .state = 1000};
  return question;
}

TEST(PipelineAnswer, IsTheSimulationOfEqualChunks) {
  const auto plain = answer(usual_question(), PipelineKind::k1F1B).value();
  EXPECT_EQ(plain.simulation.makespan, 11 * milliseconds(30));
  EXPECT_EQ(plain.simulation.peak_bytes(), 1400u);
  EXPECT_TRUE(plain.partition.empty());
  EXPECT_EQ(answer(usual_question(), PipelineKind::kZbV).value().simulation.period,
            8 * milliseconds(30));
}

TEST(PipelineAnswer, PassesOverWhatIsForOtherKinds) {
  auto question = usual_question();
  question.chunks_per_stage = 3;
  question.memory_limit = 4;
  EXPECT_EQ(chunk_count(question, PipelineKind::kGPipe).value(), 4);
  EXPECT_EQ(chunk_count(question, PipelineKind::kInterleaved).value(), 12);
  EXPECT_EQ(chunk_count(question, PipelineKind::kZbV).value(), 8);
  EXPECT_EQ(answer(question, PipelineKind::kZbV).value().simulation.peak_activations(), 4);
  for (const PipelineKind kind : layout::kPipelineKinds) EXPECT_TRUE(answer(question, kind));
}

// 8 blocks, the first and the last dear: 24 in all on 4 stages, so that an average stage has 6.
TEST(PipelineAnswer, SharesTimeAndMemoryOutByBlock) {
  auto question = usual_question();
  question.blocks = {6, 2, 2, 2, 2, 2, 2, 6};
  const auto even = answer(question, PipelineKind::k1F1B).value();
  EXPECT_EQ(even.partition, (layout::Partition{{0, 1}, {1, 4}, {4, 7}, {7, 8}}));
  EXPECT_EQ(even.simulation.makespan, 11 * milliseconds(30));
  EXPECT_EQ(even.simulation.peak_bytes(), 1400u);
  question.block_counts = {2, 2, 2, 2};
  const auto by_hand = answer(question, PipelineKind::k1F1B).value();
  EXPECT_GT(by_hand.simulation.makespan, even.simulation.makespan);
  EXPECT_NEAR(static_cast<double>(by_hand.simulation.stages[0].busy.count()), 320e6, 100)
      << "blocks are rounded to whole nanoseconds";
  EXPECT_EQ(by_hand.simulation.stages[0].peak_bytes, 1333u + 4 * 133u);
}

TEST(PipelineAnswer, SaysWhatDoesNotFit) {
  auto question = usual_question();
  question.blocks = {1, 1, 1, 1, 1};
  EXPECT_NE(answer(question, PipelineKind::kZbV).error().message.find("5 blocks cannot fill 8"),
            std::string::npos);
  question.block_counts = {1, 1, 1};
  EXPECT_FALSE(answer(question, PipelineKind::k1F1B));
  question.blocks = {};
  EXPECT_EQ(answer(question, PipelineKind::k1F1B).error().message,
            "[plan/pipeline] a partition by hand needs to know what the blocks cost");
  question.blocks = {1, -1, 1, 1};
  EXPECT_EQ(answer(question, PipelineKind::k1F1B).error().message,
            "[plan/pipeline] a block costs 0 or more");
  question.blocks = {0, 0, 0, 0};
  EXPECT_EQ(answer(question, PipelineKind::k1F1B).error().message,
            "[plan/pipeline] some block costs more than 0");
  question = usual_question();
  question.stages = 0;
  EXPECT_FALSE(answer(question, PipelineKind::k1F1B));
}

}  // namespace
}  // namespace muster::plan
