#include "muster/parallel/held_weights.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::parallel {
namespace {

WeightShards frozen_shards(const models::Model& model, const ShardPlan& trained, Rank shard,
                           BucketSizes sizes) {
  sizes.dtype = DType::kF32;
  const std::vector<models::Parameter>& frozen = model.frozen();
  BucketLayout layout = plan_block_buckets(model, frozen, 0, sizes);
  const auto shards = static_cast<std::int32_t>(trained.pieces.size());
  const ShardPlan plan = plan_shards(layout, cells_by_slot(frozen), shards);
  return {frozen, std::move(layout), plan, shard};
}

}  // namespace

HeldWeights::HeldWeights(const models::Model& model, const BucketLayout& layout,
                         const ShardPlan& plan, Rank shard, BucketSizes sizes)
    : model_(model),
      trained_(model.parameters(), layout, plan, shard),
      frozen_(frozen_shards(model, plan, shard, sizes)) {}

Result<std::unique_ptr<WeightGathers>> HeldWeights::gathers(comm::Communicator& ranks,
                                                            const models::Compute& passes,
                                                            const comm::OpOptions& op) const {
  std::vector<WeightBucket> buckets;
  for (const WeightShards* shards : {&trained_, &frozen_})
    shards->append_to(buckets, products_in(passes.precision));
  auto needed = buckets_needed(model_, buckets);
  return WeightGathers::create(ranks, std::move(buckets), std::move(needed), op);
}

void HeldWeights::loaded() {
  trained_.loaded();
  frozen_.loaded();
}

std::vector<TensorSlice> HeldWeights::state() const {
  std::vector<TensorSlice> state = trained_.state();
  std::ranges::move(frozen_.state(), std::back_inserter(state));
  return state;
}

}  // namespace muster::parallel
