#include "muster/parallel/exchanged_shards.h"

#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

BucketShards shards_of_exchange(const ShardPlan& plan, const Peers& peers) {
  if (peers.shards() == 1) return {};
  return among_copies(plan.shards, peers.copies());
}

ExchangedShards::ExchangedShards(GradientExchange& exchange, const Peers& peers,
                                 ShardedOptimizer& optimizer)
    : exchange_(exchange), peers_(peers), optimizer_(optimizer) {}

std::span<float> ExchangedShards::sum_of(const ShardPiece& piece) const {
  return exchange_.sum(piece.slot)
      .subspan(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.count));
}

void ExchangedShards::lay_under() const {
  optimizer_.lay_over([this](const ShardPiece& piece) { return sum_of(piece); });
}

Status ExchangedShards::gather_sums() {
  if (peers_.shards() == 1 || peers_.copies() == 1) return ok();
  const BucketShards& shards = optimizer_.plan().shards;
  std::vector<std::int64_t> begins;
  for (const auto& bucket : shards)
    begins.push_back(bucket ? bucket->begin_of(optimizer_.shard()) : 0);
  const BucketShards parts = within(shards, optimizer_.shard(), peers_.copies());
  return exchange_.gather(*peers_.alike(), {.shards = parts, .begins = begins, .label = "shards"});
}

// Of the parameters themselves there is nothing to be done.
void ExchangedShards::take_over(const std::vector<at::Tensor>& rows) const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const at::Tensor& own = optimizer_.rows()[i];
    if (own.const_data_ptr() != rows[i].const_data_ptr()) copy_over(rows[i], own);
  }
}

Status ExchangedShards::share(const std::vector<at::Tensor>& rows, const OnLanes& on_lanes) {
  const auto& pieces = optimizer_.pieces();
  if (peers_.shards() == 1) {
    take_over(rows);
    return ok();
  }
  MUSTER_TRY(on_lanes(pieces.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) copy_over(rows[i], sum_of(pieces[i]));
  }));
  MUSTER_TRY(exchange_.gather(*peers_.one_of_each(), {.shards = optimizer_.plan().shards}));
  const auto& parameters = optimizer_.parameters();
  return on_lanes(parameters.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t p = begin; p < end; ++p) {
      const auto slot = static_cast<std::int32_t>(parameters.size() - p);
      copy_over(exchange_.sum(slot), parameters[p].tensor);
    }
  });
}

}  // namespace muster::parallel
