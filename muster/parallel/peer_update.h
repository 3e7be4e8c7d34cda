#pragma once
// The update of parameters that several ranks hold alike, for strategies that cut the model: from
// the sums of an exchange of gradients over these ranks. Where the mesh has an axis `shard`, each
// keeps and updates its shard of the optimizer's state only (ZeRO stage 1), of the gradients as
// well where these are exchanged so (stage 2), and of the weights (stage 3), with the same bits.
// One thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/held_weights.h"
#include "muster/parallel/peers.h"
#include "muster/parallel/shard_exchange.h"
#include "muster/parallel/sharded_optimizer.h"
#include "muster/parallel/summed_shards.h"

namespace muster::parallel {

// As the exchange of so many shards is to have them.
inline BucketSizes sizes_for_shards(BucketSizes sizes, std::int32_t shards) {
  if (shards > 1) sizes.first_slot_alone = true;
  return sizes;
}

class PeerUpdate {
 public:
  struct Parts {
    std::vector<models::Parameter> parameters;  // that this rank holds, in the model's order
    BucketLayout layout;                        // of the exchange, by sizes_for_shards()
    const MeshPlace& place;                     // whose axis `shard` it is
    // Of several shards: whose weights, these and frozen ones, are held in shards as well, those in
    // buckets of these sizes. It outlives this.
    const models::Model* weights_of = nullptr;
    BucketSizes frozen_sizes = {};
  };
  static Result<std::unique_ptr<PeerUpdate>> create(Parts parts,
                                                    const optim::CreateOptimizer& create,
                                                    OnLanes on_lanes);

  // A generation: ExchangeOptions::shards of the exchange of these peers, and then that exchange,
  // which outlives its use. Or one that leaves each owner its shard of the gradients only.
  BucketShards shards_for(const Peers& peers) const;
  void enter(Peers peers, GradientExchange& exchange, comm::OpOptions op);
  void enter(Peers peers, ShardExchange& exchange, comm::OpOptions op);

  // After the exchange has finished: the sums that this rank updates from are whole.
  Status gather_sums() { return summed_->gather_sums(); }
  // Of the parameters by their order; likewise. Collective among peers, as is what follows.
  Result<std::vector<double>> squared_norms() { return optimizer_->squared_norms(); }
  Status update(double learning_rate, double divisor);
  std::uint64_t sent_bytes() const;  // that an update sends, besides what the exchange counts
  Status use_average(bool average);  // as Strategy has it
  bool uses_average() const noexcept { return uses_average_; }
  void loaded(std::int64_t steps);  // the state, and weights that are held in shards

  ShardedOptimizer& optimizer() noexcept { return *optimizer_; }
  const Peers& peers() const noexcept { return peers_; }
  const HeldWeights* weights() const noexcept { return weights_.get(); }  // with weights_of

 private:
  PeerUpdate(std::unique_ptr<ShardedOptimizer> optimizer, OnLanes on_lanes)
      : optimizer_(std::move(optimizer)), on_lanes_(std::move(on_lanes)) {}
  Status keep_shard(Parts parts);
  void enter(std::unique_ptr<SummedShards> summed, comm::OpOptions op);
  void swap_with_average();
  Status share_average();
  void take_back_trained();

  const std::unique_ptr<ShardedOptimizer> optimizer_;
  const OnLanes on_lanes_;
  BucketLayout layout_;
  std::unique_ptr<HeldWeights> weights_;
  bool uses_average_ = false;
  std::vector<at::Tensor> trained_;  // parameters, while the model holds the average of all shards

  // Of the present generation:
  Peers peers_;
  std::unique_ptr<SummedShards> summed_;
};

}  // namespace muster::parallel
