#pragma once
// Who keeps which part of the optimizer's state (ZeRO: Rajbhandari et al., SC 2020). Every bucket
// of the exchange is cut among all ranks, at borders of cells (optim/cells.h), so that each rank
// has the same share of every bucket's sum to compute. Pure; the same on every rank.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/op.h"
#include "muster/optim/cells.h"
#include "muster/parallel/bucket_layout.h"

namespace muster::parallel {

struct ShardPiece {  // of one tensor: whole rows, whole cells
  std::int32_t slot = 0;
  std::int64_t begin = 0;  // in elements of the tensor
  std::int64_t count = 0;
  friend bool operator==(const ShardPiece&, const ShardPiece&) = default;
};

struct ShardPlan {
  // By bucket, as ExchangeOptions has them: none for the first, which everybody gets.
  std::vector<std::shared_ptr<const comm::Shards>> shards;
  std::vector<std::vector<ShardPiece>> pieces;  // by rank, in the order of slots
};

// `layout`: with the first slot alone in its bucket; cells[i]: of slot i + 1.
ShardPlan plan_shards(const BucketLayout& layout, std::span<const optim::Cells> cells,
                      std::int32_t ranks);

using BucketShards = std::vector<std::shared_ptr<const comm::Shards>>;  // by bucket; none: uncut

// Each shard cut once more, anywhere, among so many copies of it: as Peers::all() has their ranks.
BucketShards among_copies(const BucketShards& shards, std::int32_t copies);
// How the copies of one shard have it then, counted from its begin.
BucketShards within(const BucketShards& shards, Rank shard, std::int32_t copies);

}  // namespace muster::parallel
