#include "muster/layout/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "muster/base/check.h"
#include "muster/base/random.h"

namespace muster::layout {
namespace {

using std::chrono::milliseconds;

std::vector<Duration> costs(std::initializer_list<int> numbers) {
  std::vector<Duration> all;
  for (const int number : numbers) all.push_back(milliseconds(number));
  return all;
}

std::vector<Duration> random_costs(std::uint64_t seed, std::size_t blocks) {
  const RandomStream stream(seed, "partition");
  std::vector<Duration> all;
  for (std::size_t i = 0; i < blocks; ++i)
    all.push_back(milliseconds(static_cast<int>(stream.bits(i) % 20)));
  return all;
}

std::vector<std::int32_t> sizes(const Partition& partition) {
  std::vector<std::int32_t> all;
  for (const BlockRange& range : partition) all.push_back(range.size());
  return all;
}

using Sizes = std::vector<std::int32_t>;

void expect_whole(const Partition& partition, std::size_t blocks) {
  std::int32_t next = 0;
  for (const BlockRange& range : partition) {
    EXPECT_EQ(range.begin, next);
    EXPECT_GE(range.size(), 1);
    next = range.end;
  }
  EXPECT_EQ(static_cast<std::size_t>(next), blocks);
}

// Of every partition.
Duration fastest(const std::vector<Duration>& costs, const std::vector<Stage>& stage_of) {
  Duration best = Duration::max();
  Partition partition;
  const std::function<void(std::int32_t)> cut = [&](std::int32_t begin) {
    const auto blocks = static_cast<std::int32_t>(costs.size());
    if (partition.size() + 1 == stage_of.size()) {
      partition.push_back({begin, blocks});
      best = std::min(best, std::ranges::max(stage_costs(partition, costs, stage_of)));
      partition.pop_back();
      return;
    }
    const auto left = static_cast<std::int32_t>(stage_of.size() - partition.size() - 1);
    for (std::int32_t end = begin + 1; end <= blocks - left; ++end) {
      partition.push_back({begin, end});
      cut(end);
      partition.pop_back();
    }
  };
  cut(0);
  return best;
}

TEST(PartitionByCost, EvensOutTheStages) {
  const auto round = [](std::int32_t stages) { return round_robin_placement(stages, 1); };
  EXPECT_EQ(sizes(partition_by_cost(costs({1, 1, 1, 1, 1, 1, 1}), round(3)).value()),
            (Sizes{2, 2, 3}));
  EXPECT_EQ(sizes(partition_by_cost(costs({9, 1, 1, 1, 1, 1}), round(3)).value()),
            (Sizes{1, 2, 3}));
  EXPECT_EQ(sizes(partition_by_cost(costs({1, 2, 3, 4, 5}), round(5)).value()),
            (Sizes{1, 1, 1, 1, 1}));
  EXPECT_EQ(sizes(partition_by_cost(costs({5}), round(1)).value()), Sizes{1});
  EXPECT_EQ(sizes(partition_by_cost(costs({0, 0, 0}), round(2)).value()).size(), 2u);
}

TEST(PartitionByCost, NoOtherIsFasterWithOneChunkAStage) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const std::int32_t stages : {2, 3, 4, 5}) {
      const auto blocks = random_costs(seed, 5 + seed % 7);
      const auto stage_of = round_robin_placement(stages, 1);
      const Partition partition = partition_by_cost(blocks, stage_of).value();
      expect_whole(partition, blocks.size());
      EXPECT_EQ(std::ranges::max(stage_costs(partition, blocks, stage_of)),
                fastest(blocks, stage_of));
    }
  }
}

TEST(PartitionByCost, SolvesSmallProblemsOfSeveralChunksAStage) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    for (const auto& stage_of : {v_placement(2), v_placement(3), round_robin_placement(2, 3),
                                 round_robin_placement(3, 2)}) {
      const auto blocks = random_costs(seed, 8 + seed % 5);
      const Partition partition = partition_by_cost(blocks, stage_of).value();
      expect_whole(partition, blocks.size());
      EXPECT_EQ(std::ranges::max(stage_costs(partition, blocks, stage_of)),
                fastest(blocks, stage_of));
    }
  }
}

TEST(PartitionByCost, LeavesNoBorderToMoveInLargeOnes) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto blocks = random_costs(seed, 60);
    const auto stage_of = round_robin_placement(4, 4);
    const Partition partition = partition_by_cost(blocks, stage_of).value();
    const Duration slowest = std::ranges::max(stage_costs(partition, blocks, stage_of));
    for (std::size_t chunk = 0; chunk + 1 < partition.size(); ++chunk) {
      for (const int by : {-1, 1}) {
        Partition moved = partition;
        moved[chunk].end += by;
        moved[chunk + 1].begin += by;
        if (moved[chunk].size() < 1 || moved[chunk + 1].size() < 1) continue;
        EXPECT_GE(std::ranges::max(stage_costs(moved, blocks, stage_of)), slowest);
      }
    }
  }
}

TEST(PartitionByCost, CountsAllChunksOfAStage) {
  // The last block is dear: its stage's other chunk gets little.
  const auto stage_of = v_placement(2);
  const auto blocks = costs({2, 2, 2, 2, 2, 2, 8});
  const Partition partition = partition_by_cost(blocks, stage_of).value();
  EXPECT_EQ(stage_costs(partition, blocks, stage_of), costs({10, 10}));
}

TEST(PartitionByCost, IsQuickEnoughForLargeModels) {
  const auto blocks = random_costs(7, 400);
  for (const auto& stage_of : {round_robin_placement(64, 1), v_placement(16)}) {
    const Partition partition = partition_by_cost(blocks, stage_of).value();
    expect_whole(partition, blocks.size());
  }
}

TEST(PartitionByCost, NeedsABlockForEachChunk) {
  EXPECT_EQ(partition_by_cost(costs({1, 1, 1}), v_placement(2)).error().message,
            "[layout/partition] 3 blocks cannot fill 4 chunks of a pipeline; take fewer stages, "
            "fewer chunks a stage, or a model of more blocks");
  EXPECT_THROW((void)partition_by_cost(costs({1, -1}), v_placement(1)), LogicFault);
}

TEST(PartitionByHand, TakesTheCountsOrSaysWhyNot) {
  const auto by_hand = [](Sizes counts, std::int32_t blocks, std::int32_t chunks) {
    return partition_by_hand(counts, {blocks, chunks});
  };
  EXPECT_EQ(by_hand({3, 1, 2}, 6, 3).value(), (Partition{{0, 3}, {3, 4}, {4, 6}}));
  EXPECT_EQ(by_hand({3, 3}, 6, 3).error().message,
            "[layout/partition] 2 counts of blocks for 3 chunks; write one for each");
  EXPECT_EQ(by_hand({3, 0, 3}, 6, 3).error().message,
            "[layout/partition] chunk 1 has 0 blocks; expected at least 1");
  EXPECT_EQ(by_hand({3, 1, 1}, 6, 3).error().message,
            "[layout/partition] chunks of 5 blocks, and the model has 6");
  EXPECT_EQ(by_hand({INT32_MAX, INT32_MAX, 1}, 6, 3).error().message,
            "[layout/partition] chunks of 2147483647 blocks or more, and the model has 6");
  EXPECT_FALSE(by_hand({1, 1}, 1, 2));
}

TEST(ChunkCosts, AddUpBlocks) {
  const std::vector<ChunkCost> blocks = {{milliseconds(1), milliseconds(2), milliseconds(3), 10},
                                         {milliseconds(4), milliseconds(5), milliseconds(6), 20},
                                         {milliseconds(7), milliseconds(8), milliseconds(9), 30}};
  const auto chunks = chunk_costs({{0, 2}, {2, 3}}, blocks);
  EXPECT_EQ(chunks[0].forward, milliseconds(5));
  EXPECT_EQ(chunks[0].backward_input, milliseconds(7));
  EXPECT_EQ(chunks[0].backward_weight, milliseconds(9));
  EXPECT_EQ(chunks[0].output_bytes, 20u);
  EXPECT_EQ(chunks[1].output_bytes, 30u);
}

TEST(TiedBlocks, AreCopiedWhereTheirStagesDiffer) {
  const Partition partition = {{0, 2}, {2, 4}, {4, 5}, {5, 7}};
  const TiedBlocks embedding{"embedding.weight", {6, 0}};
  EXPECT_EQ(holders_of(embedding, partition, round_robin_placement(4, 1)),
            (std::vector{Stage{0}, Stage{3}}));
  EXPECT_EQ(holders_of(embedding, partition, round_robin_placement(2, 2)),
            (std::vector{Stage{0}, Stage{1}}));
  EXPECT_EQ(holders_of(embedding, partition, v_placement(2)), (std::vector{Stage{0}}));
  EXPECT_EQ(chunk_of(partition, 4), Chunk{2});
  EXPECT_THROW((void)chunk_of(partition, 7), LogicFault);
}

}  // namespace
}  // namespace muster::layout
