#pragma once
// Which blocks of a model a chunk of the pipeline has: contiguous ranges, in order, chosen by what
// the blocks cost or by hand. Pure, thread-safe.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/layout/pipeline/schedule.h"
#include "muster/layout/pipeline/times.h"

namespace muster::layout {

struct BlockRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  constexpr std::int32_t size() const noexcept { return end - begin; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

using Partition = std::vector<BlockRange>;  // by chunk; none is empty

// So that the slowest stage (all its chunks together) is as fast as can be, and the others as even
// as can be. costs[i]: of block i, forward and backward of one micro-batch, measured or estimated;
// not negative. With one chunk a stage no other partition is faster. With several that is a hard
// problem: small ones are solved, in large ones no border, and no two of them, can be moved by a
// block to make it faster. The same costs give the same partition everywhere.
// kInvalid where there are fewer blocks than chunks.
Result<Partition> partition_by_cost(std::span<const Duration> costs,
                                    const std::vector<Stage>& stage_of);

// counts[c]: how many blocks chunk c has. kInvalid where these are not `blocks` in `chunks`.
struct PartitionSize {
  std::int32_t blocks;
  std::int32_t chunks;
};
Result<Partition> partition_by_hand(std::span<const std::int32_t> counts, PartitionSize size);

// By stage: what all its blocks cost.
std::vector<Duration> stage_costs(const Partition& partition, std::span<const Duration> costs,
                                  const std::vector<Stage>& stage_of);

// What the simulator wants, from what each block costs; output_bytes are those of the last block.
std::vector<ChunkCost> chunk_costs(const Partition& partition, std::span<const ChunkCost> blocks);

Chunk chunk_of(const Partition& partition, std::int32_t block);

// A tensor that several blocks use, as the embedding and the output layer of a language model do.
struct TiedBlocks {
  std::string tensor;
  std::vector<std::int32_t> blocks;
};
// The stages that hold it, ascending. Where there are several, each has a copy, and they sum its
// gradient before the update. On a V-shaped placement the first and the last block share a stage.
std::vector<Stage> holders_of(const TiedBlocks& tied, const Partition& partition,
                              const std::vector<Stage>& stage_of);

}  // namespace muster::layout
