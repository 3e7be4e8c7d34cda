#pragma once
// Shards of gradients that nobody holds whole (ZeRO stage 2): each owner has the sum of its shard
// alone (shard_exchange.h), and the weights come to everybody a few buckets at a time. Where the
// model is cut as well, each rank meets those that have the same part of it (peers.h). One thread.

#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/sum_tree.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/peers.h"
#include "muster/parallel/shard_exchange.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/slice_gradients.h"
#include "muster/parallel/summed_shards.h"

namespace muster::parallel {

// Who owns which shards, and who finds which leaves of the tree: owners[i] the one of leaf i, as a
// rank of peers.all(). Those that own a shard each are of one copy of it; then the copies add up
// what they found, along the same tree, or in fast mode in any order.
SliceGradients::ShardOwners shard_owners(const Peers& peers, const ShardPlan& plan,
                                         const comm::LeafOwners& owners, bool ordered);

// Of so many bytes of gradients what an owner holds of their sums, where `units` are found by the
// ranks of one copy, in turns by all of their lanes.
std::uint64_t scattered_bytes(std::uint64_t whole, std::int32_t units, std::int32_t shards,
                              std::int32_t lanes);

class ScatteredShards final : public SummedShards {
 public:
  // They outlive it. `layout`: of the exchange's buckets.
  ScatteredShards(ShardExchange& exchange, BucketLayout layout, ShardedOptimizer& optimizer);

  void lay_under() const override;
  Status share(const std::vector<at::Tensor>& rows, const OnLanes& on_lanes) override;
  std::uint64_t shared_bytes() const override;

 private:
  std::span<float> rows_in(std::span<float> shard, const ShardPiece& piece) const;
  void put(const std::vector<at::Tensor>& rows, std::int32_t bucket, std::span<float> shard) const;
  void take(std::int32_t bucket, std::span<const float> whole) const;

  ShardExchange& exchange_;
  const BucketLayout layout_;
  ShardedOptimizer& optimizer_;
};

}  // namespace muster::parallel
