#pragma once
// Shards in the buckets of a gradient exchange (ZeRO stage 1): their sums come to every rank that
// keeps the shard, and what these make of their rows of the parameters goes to all peers, in the
// same place. Where there is one shard, everybody has all sums already. One thread.

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "muster/base/result.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/peers.h"
#include "muster/parallel/shard_plan.h"
#include "muster/parallel/sharded_optimizer.h"
#include "muster/parallel/summed_shards.h"

namespace muster::parallel {

// What the exchange of peers is made with (ExchangeOptions::shards), for a plan of their shards.
BucketShards shards_of_exchange(const ShardPlan& plan, const Peers& peers);

class ExchangedShards final : public SummedShards {
 public:
  // `exchange`: over peers.all(). They outlive it, as does the optimizer.
  ExchangedShards(GradientExchange& exchange, const Peers& peers, ShardedOptimizer& optimizer);

  void lay_under() const override;
  Status gather_sums() override;
  Status share(const std::vector<at::Tensor>& rows, const OnLanes& on_lanes) override;

 private:
  void take_over(const std::vector<at::Tensor>& rows) const;
  std::span<float> sum_of(const ShardPiece& piece) const;

  GradientExchange& exchange_;
  const Peers& peers_;
  ShardedOptimizer& optimizer_;
};

}  // namespace muster::parallel
