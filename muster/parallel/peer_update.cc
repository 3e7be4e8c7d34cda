#include "muster/parallel/peer_update.h"

#include <utility>

#include "muster/parallel/exchanged_shards.h"
#include "muster/parallel/scattered_shards.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

Result<std::unique_ptr<PeerUpdate>> PeerUpdate::create(Parts parts,
                                                       const optim::CreateOptimizer& create,
                                                       OnLanes on_lanes) {
  MUSTER_ASSIGN(auto optimizer, ShardedOptimizer::create(parts.parameters, create, on_lanes));
  std::unique_ptr<PeerUpdate> update(new PeerUpdate(std::move(optimizer), std::move(on_lanes)));
  if (parts.place.mesh.extent(layout::Axis::kShard) > 1)
    MUSTER_TRY(update->keep_shard(std::move(parts)));
  return update;
}

Status PeerUpdate::keep_shard(Parts parts) {
  layout_ = std::move(parts.layout);
  const Rank shard{parts.place.along(layout::Axis::kShard)};
  ShardPlan plan = optimizer_->plan_for(layout_, parts.place.mesh.extent(layout::Axis::kShard));
  std::vector<at::Tensor> rows;
  if (parts.weights_of != nullptr) {
    weights_ =
        std::make_unique<HeldWeights>(*parts.weights_of, layout_, plan, shard, parts.frozen_sizes);
    rows = weights_->rows();
  }
  return optimizer_->keep(std::move(plan), shard, std::move(rows));
}

BucketShards PeerUpdate::shards_for(const Peers& peers) const {
  return shards_of_exchange(optimizer_->plan(), peers);
}

void PeerUpdate::enter(Peers peers, GradientExchange& exchange, comm::OpOptions op) {
  peers_ = std::move(peers);
  enter(std::make_unique<ExchangedShards>(exchange, peers_, *optimizer_), std::move(op));
}

void PeerUpdate::enter(Peers peers, ShardExchange& exchange, comm::OpOptions op) {
  peers_ = std::move(peers);
  enter(std::make_unique<ScatteredShards>(exchange, layout_, *optimizer_), std::move(op));
}

void PeerUpdate::enter(std::unique_ptr<SummedShards> summed, comm::OpOptions op) {
  summed_ = std::move(summed);
  summed_->lay_under();
  optimizer_->meet(peers_.one_of_each(), std::move(op));
}

// Weights that are held in shards come to the others with the next gathers.
Status PeerUpdate::update(double learning_rate, double divisor) {
  MUSTER_TRY(optimizer_->update(learning_rate, divisor));
  if (!weights_) return summed_->share(optimizer_->rows(), on_lanes_);
  weights_->rows_changed();
  return ok();
}

std::uint64_t PeerUpdate::sent_bytes() const { return weights_ ? 0 : summed_->shared_bytes(); }

void PeerUpdate::loaded(std::int64_t steps) {
  if (weights_) weights_->loaded();
  optimizer_->loaded(steps);
}

void PeerUpdate::swap_with_average() {
  const auto& rows = optimizer_->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) swap_over(rows[i], optimizer_->average()[i]);
  optimizer_->changed();
  if (weights_) weights_->rows_changed();
}

Status PeerUpdate::share_average() {
  for (const models::Parameter& parameter : optimizer_->parameters())
    trained_.push_back(parameter.tensor.detach().clone());
  Status shared = summed_->share(optimizer_->average(), on_lanes_);
  if (!shared) take_back_trained();  // some buckets may have come
  return shared;
}

void PeerUpdate::take_back_trained() {
  const auto& parameters = optimizer_->parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) copy_over(trained_[p], parameters[p].tensor);
  trained_.clear();
}

// Everybody goes back to the trained ones without the others.
Status PeerUpdate::use_average(bool average) {
  if (average == uses_average_) return ok();
  if (optimizer_->average().size() != optimizer_->rows().size())
    return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  if (optimizer_->shards() == 1 || weights_) {
    swap_with_average();
  } else if (average) {
    MUSTER_TRY(share_average());
  } else {
    take_back_trained();
  }
  uses_average_ = average;
  return ok();
}

}  // namespace muster::parallel
