#include "muster/parallel/scattered_shards.h"

#include <memory>
#include <utility>

#include "muster/layout/shard_turns.h"
#include "muster/parallel/tensor_bridge.h"

namespace muster::parallel {

SliceGradients::ShardOwners shard_owners(const Peers& peers, const ShardPlan& plan,
                                         const comm::LeafOwners& owners, bool ordered) {
  const std::int32_t copies = peers.copies();  // next to each other in peers.all()
  const std::int32_t own = to_int(peers.all()->group().rank) % copies;
  SliceGradients::ShardOwners found{
      .ranks = peers.shards() == 1 ? peers.all() : peers.one_of_each(),
      .shards = plan.shards,
      .owners = {}};
  comm::LeafOwners by_copy;
  for (const Rank owner : owners) {
    by_copy.push_back(Rank{to_int(owner) % copies});
    const Rank shard{to_int(owner) / copies};
    found.owners.push_back(to_int(by_copy.back()) == own ? shard : kNoRank);
  }
  if (copies == 1) return found;
  found.copies = peers.alike();
  if (ordered) found.tree = std::make_shared<const comm::SumTree>(by_copy, copies);
  return found;
}

std::uint64_t scattered_bytes(std::uint64_t whole, std::int32_t units, std::int32_t shards,
                              std::int32_t lanes) {
  const std::int32_t sums = layout::sums_held(units, shards * lanes);
  return whole * static_cast<std::uint64_t>(sums) / static_cast<std::uint64_t>(shards);
}

ScatteredShards::ScatteredShards(ShardExchange& exchange, BucketLayout layout,
                                 ShardedOptimizer& optimizer)
    : exchange_(exchange), layout_(std::move(layout)), optimizer_(optimizer) {}

// `shard`: this rank's of the piece's bucket.
std::span<float> ScatteredShards::rows_in(std::span<float> shard, const ShardPiece& piece) const {
  const BucketSlot& place = layout_.slots[static_cast<std::size_t>(piece.slot)];
  const auto& shards = *optimizer_.plan().shards[static_cast<std::size_t>(place.bucket)];
  const std::int64_t first = shards.begin_of(optimizer_.shard());
  return shard.subspan(static_cast<std::size_t>(place.offset + piece.begin - first),
                       static_cast<std::size_t>(piece.count));
}

void ScatteredShards::lay_under() const {
  optimizer_.lay_over([this](const ShardPiece& piece) {
    const BucketSlot& place = layout_.slots[static_cast<std::size_t>(piece.slot)];
    return rows_in(exchange_.sum(place.bucket), piece);
  });
}

// A few buckets at a time, so that there is no need for memory for all of them.
Status ScatteredShards::share(const std::vector<at::Tensor>& rows, const OnLanes&) {
  return exchange_.gather(
      [&](std::int32_t bucket, std::span<float> shard) { put(rows, bucket, shard); },
      [&](std::int32_t bucket, std::span<const float> whole) { take(bucket, whole); });
}

void ScatteredShards::put(const std::vector<at::Tensor>& rows, std::int32_t bucket,
                          std::span<float> shard) const {
  const auto& pieces = optimizer_.pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (layout_.slots[static_cast<std::size_t>(pieces[i].slot)].bucket == bucket)
      copy_over(rows[i], rows_in(shard, pieces[i]));
}

void ScatteredShards::take(std::int32_t bucket, std::span<const float> whole) const {
  const auto& parameters = optimizer_.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const BucketSlot& place = layout_.slots[parameters.size() - p];
    if (place.bucket == bucket)
      copy_over(whole.subspan(static_cast<std::size_t>(place.offset),
                              static_cast<std::size_t>(place.count)),
                parameters[p].tensor);
  }
}

std::uint64_t ScatteredShards::shared_bytes() const {
  std::int64_t own = 0;
  for (const auto& shards : optimizer_.plan().shards)
    if (shards) own += shards->count_of(optimizer_.shard());
  return static_cast<std::uint64_t>(own) * sizeof(float) *
         static_cast<std::uint64_t>(optimizer_.shards() - 1);
}

}  // namespace muster::parallel
