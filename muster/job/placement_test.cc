#include "muster/job/placement.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace muster::job {
namespace {

const std::vector<std::string> kDecoder = {"embedding", "layer0", "layer1",
                                           "layer2",    "layer3", "head"};

StrategySpec placed(std::vector<PlacedBlocks> placement, std::int64_t stages,
                    PipelineSchedule schedule = PipelineSchedule::k1F1B, std::int64_t chunks = 1) {
  StrategySpec strategy;
  strategy.stages = stages;
  strategy.schedule = schedule;
  strategy.chunks_per_stage = chunks;
  strategy.placement = std::move(placement);
  return strategy;
}

std::vector<std::int64_t> sizes_of(const StrategySpec& strategy) {
  const BlocksPlaced found = place_blocks(strategy, kDecoder);
  EXPECT_EQ(found.wrong, "");
  return found.sizes;
}

void expect_wrong(const StrategySpec& strategy, const std::string& what, const std::string& help) {
  const BlocksPlaced found = place_blocks(strategy, kDecoder);
  EXPECT_TRUE(found.sizes.empty());
  EXPECT_EQ(found.wrong, what);
  EXPECT_EQ(found.help, help);
}

using Sizes = std::vector<std::int64_t>;

TEST(Placement, CountsTheBlocksOfEachStage) {
  EXPECT_EQ(sizes_of(placed({{"embedding", 0}, {"layer[0-2]", 1}, {"*", 2}}, 3)), (Sizes{1, 3, 2}));
  EXPECT_EQ(sizes_of(placed({{"*", 0}}, 1)), Sizes{6});
  const StrategySpec first_wins = placed({{"layer0", 0}, {"layer*", 1}, {"head", 1}, {"*", 0}}, 2);
  EXPECT_EQ(sizes_of(first_wins), (Sizes{2, 4}));
}

TEST(Placement, GoesBackWhereTheScheduleDoes) {
  const std::vector<PlacedBlocks> there_and_back = {{"layer*", 1}, {"*", 0}};
  EXPECT_EQ(sizes_of(placed(there_and_back, 2, PipelineSchedule::kZbV, 2)), (Sizes{1, 2, 2, 1}));
  const std::vector<PlacedBlocks> again = {
      {"embedding", 0}, {"layer0", 1}, {"layer[1-2]", 0}, {"*", 1}};
  EXPECT_EQ(sizes_of(placed(again, 2, PipelineSchedule::kInterleaved, 2)), (Sizes{1, 1, 2, 2}));
  expect_wrong(placed(there_and_back, 2),
               "the blocks pass stages 0 → 1 → 0; schedule 1f1b with 1 chunk a stage passes 0 → 1",
               "use strategy.schedule: zb_v");
  expect_wrong(placed(again, 2, PipelineSchedule::kZbV, 2),
               "the blocks pass stages 0 → 1 → 0 → 1; schedule zb_v with 2 chunks a stage passes "
               "0 → 1 → 0",
               "use strategy.schedule: interleaved with chunks_per_stage: 2");
  expect_wrong(placed({{"layer3", 1}, {"*", 0}}, 2, PipelineSchedule::kZbV, 2),
               "2 of the chunks on stage 1 follow each other, and 1 block is there",
               "each has one at least: put more there, or use another strategy.schedule");
}

TEST(Placement, NamesTheNearestThatCanBe) {
  expect_wrong(placed({{"layer1", 1}, {"layer3", 2}, {"head", 2}, {"*", 0}}, 3),
               "the blocks pass stages 0 → 1 → 0 → 2; schedule 1f1b with 1 chunk a stage passes "
               "0 → 1 → 2",
               "the nearest that can be: embedding, layer0 on stage 0; layer1, layer2 on stage 1; "
               "layer3, head on stage 2");
  expect_wrong(placed({{"embedding", 1}, {"*", 0}}, 2),
               "the blocks pass stages 1 → 0; schedule 1f1b with 1 chunk a stage passes 0 → 1",
               "number the stages in the model's order; workers.hosts says which host has which");
}

TEST(Placement, SaysWhichPatternIsWrong) {
  expect_wrong(placed({{"embeding", 0}, {"head", 1}, {"*", 0}}, 2),
               "no block has a name like `embeding`; there are embedding, layer0, layer1, layer2, "
               "layer3, head",
               "did you mean `embedding`?");
  expect_wrong(placed({{"layer*", 0}, {"layer3", 1}, {"*", 1}}, 2),
               "`layer3` puts no block anywhere: `layer*` stands before it",
               "the first pattern that matches a name has it: write it first");
  expect_wrong(placed({{"layer*", 1}, {"embedding", 0}}, 2), "a block is on no stage: head",
               "name what is left, or all of it as \"*\"");
  expect_wrong(placed({{"head", 2}, {"*", 0}}, 2), "`head` is on stage 2, and there are 2 stages",
               "expected 0 to 1");
  expect_wrong(placed({{"head", 2}, {"*", 0}}, 3), "no block is on stage 1 of 3",
               "each stage has one at least: put one there, or use fewer stages");
}

TEST(Placement, FindsTheScheduleThatPassesSo) {
  const auto found = [](std::vector<PlacedBlocks> placement) {
    return schedule_for_placement(placed(std::move(placement), 1), kDecoder);
  };
  const auto there_and_back = found({{"layer*", 1}, {"*", 0}});
  ASSERT_TRUE(there_and_back);
  EXPECT_EQ(there_and_back->schedule, PipelineSchedule::kZbV);
  const auto thrice = found({{"layer[0-0]", 1}, {"layer2", 1}, {"head", 1}, {"*", 0}});
  ASSERT_TRUE(thrice);
  EXPECT_EQ(thrice->schedule, PipelineSchedule::kInterleaved);
  EXPECT_EQ(thrice->chunks_per_stage, 3);
  EXPECT_EQ(found({{"head", 1}, {"*", 0}})->schedule, PipelineSchedule::k1F1B);
  EXPECT_FALSE(found({{"embedding", 1}, {"*", 0}}));
  EXPECT_FALSE(found({{"head", 1}})) << "not all are placed";
}

TEST(Placement, OfNumbersAsTheyAre) {
  StrategySpec strategy;
  EXPECT_TRUE(blocks_by_hand(strategy, kDecoder).value().empty());
  strategy.blocks = {2, 4};
  EXPECT_EQ(blocks_by_hand(strategy, kDecoder).value(), (std::vector<std::int32_t>{2, 4}));
  const auto wrong = blocks_by_hand(placed({{"head", 0}}, 1), kDecoder);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "[job] strategy.placement: some blocks are on no stage: embedding … layer3; name what "
            "is left, or all of it as \"*\"");
}

}  // namespace
}  // namespace muster::job
