#pragma once
// The update of parameters that several ranks hold alike, for strategies that cut the model: from
// the sums of a gradient exchange over these ranks. Where the mesh has an axis `shard`, each keeps
// and updates its shard of the optimizer's state only (ZeRO stage 1), with the same bits. One
// thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/parallel/bucket_layout.h"
#include "muster/parallel/exchanged_shards.h"
#include "muster/parallel/gradient_exchange.h"
#include "muster/parallel/peers.h"
#include "muster/parallel/sharded_optimizer.h"

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
    std::vector<std::int64_t> counts;           // of the exchange's slots
    BucketSizes bucket_sizes;                   // sizes_for_shards()
    const MeshPlace& place;                     // whose axis `shard` it is
  };
  static Result<std::unique_ptr<PeerUpdate>> create(Parts parts,
                                                    const optim::CreateOptimizer& create,
                                                    OnLanes on_lanes);

  // A generation: ExchangeOptions::shards of the exchange of these peers, and then that exchange,
  // which outlives its use.
  BucketShards shards_for(const Peers& peers) const {
    return shards_of_exchange(optimizer_->plan(), peers);
  }
  void enter(Peers peers, GradientExchange& exchange, comm::OpOptions op);

  // After the exchange has finished: the sums that this rank updates from are whole.
  Status gather_sums() { return shards_->gather_sums(); }
  // Of the parameters by their order; likewise. Collective among peers, as is what follows.
  Result<std::vector<double>> squared_norms() { return optimizer_->squared_norms(); }
  Status update(double learning_rate, double divisor);
  Status use_average(bool average);  // as Strategy has it
  bool uses_average() const noexcept { return uses_average_; }

  ShardedOptimizer& optimizer() noexcept { return *optimizer_; }
  const Peers& peers() const noexcept { return peers_; }

 private:
  PeerUpdate(std::unique_ptr<ShardedOptimizer> optimizer, OnLanes on_lanes)
      : optimizer_(std::move(optimizer)), on_lanes_(std::move(on_lanes)) {}
  void swap_with_average();
  Status share_average();

  const std::unique_ptr<ShardedOptimizer> optimizer_;
  const OnLanes on_lanes_;
  bool uses_average_ = false;
  std::vector<at::Tensor> trained_;  // parameters, while the model holds the average of all shards

  // Of the present generation:
  Peers peers_;
  std::unique_ptr<ExchangedShards> shards_;
};

}  // namespace muster::parallel
