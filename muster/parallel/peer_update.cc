#include "muster/parallel/peer_update.h"

#include <utility>

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

Result<std::unique_ptr<PeerUpdate>> PeerUpdate::create(Parts parts,
                                                       const optim::CreateOptimizer& create,
                                                       OnLanes on_lanes) {
  MUSTER_ASSIGN(auto optimizer,
                ShardedOptimizer::create(std::move(parts.parameters), create, on_lanes));
  const std::int32_t shards = parts.place.mesh.extent(layout::Axis::kShard);
  if (shards > 1) {
    const BucketLayout layout = plan_buckets(parts.counts, parts.bucket_sizes);
    MUSTER_TRY(optimizer->keep(optimizer->plan_for(layout, shards),
                               Rank{parts.place.along(layout::Axis::kShard)}));
  }
  return std::unique_ptr<PeerUpdate>(new PeerUpdate(std::move(optimizer), std::move(on_lanes)));
}

void PeerUpdate::enter(Peers peers, GradientExchange& exchange, comm::OpOptions op) {
  peers_ = std::move(peers);
  shards_ = std::make_unique<ExchangedShards>(exchange, peers_, *optimizer_);
  shards_->lay_under();
  optimizer_->meet(peers_.one_of_each(), std::move(op));
}

Status PeerUpdate::update(double learning_rate, double divisor) {
  MUSTER_TRY(optimizer_->update(learning_rate, divisor));
  return shards_->share(optimizer_->rows(), on_lanes_);
}

void PeerUpdate::swap_with_average() {
  const auto& rows = optimizer_->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) swap_over(rows[i], optimizer_->average()[i]);
  optimizer_->changed();
}

Status PeerUpdate::share_average() {
  for (const models::Parameter& parameter : optimizer_->parameters())
    trained_.push_back(parameter.tensor.detach().clone());
  Status shared = shards_->share(optimizer_->average(), on_lanes_);
  if (!shared) trained_.clear();
  return shared;
}

// Everybody goes back to the trained ones without the others.
Status PeerUpdate::use_average(bool average) {
  if (average == uses_average_) return ok();
  if (optimizer_->average().size() != optimizer_->rows().size())
    return fail(ErrorCode::kInvalid, "[parallel] no average is kept");
  const auto& parameters = optimizer_->parameters();
  if (optimizer_->shards() == 1) {
    swap_with_average();
  } else if (average) {
    MUSTER_TRY(share_average());
  } else {
    for (std::size_t p = 0; p < parameters.size(); ++p)
      copy_over(trained_[p], parameters[p].tensor);
    trained_.clear();
  }
  uses_average_ = average;
  return ok();
}

}  // namespace muster::parallel
