#include "muster/plan/shard_cost.h"

#include <algorithm>

#include "muster/base/round_up.h"
#include "muster/layout/shard_turns.h"
#include "muster/layout/weight_uses.h"

namespace muster::plan {
namespace {

constexpr Rank kFirst{0};
constexpr std::uint64_t kAhead =
    2;  // buckets that a lane fills or sends (parallel/shard_traffic.cc)
constexpr std::uint64_t kRows = 2;  // buckets being gathered (parallel/shard_exchange.cc)

std::uint64_t as_bytes(std::int64_t floats) { return static_cast<std::uint64_t>(floats) * kFloat; }

// What is summed by itself: slices, or in fast mode a lane's together.
struct Units {
  comm::LeafOwners workers;  // whose they are
  comm::LeafOwners owners;   // the same in the first replica, by shard; others' are nobody's
  std::vector<std::int64_t> passes;
  std::int32_t width = 1;  // of a rank at a time
  std::int32_t own_replica() const {
    return static_cast<std::int32_t>(std::ssize(owners) - std::ranges::count(owners, kNoRank));
  }
};

std::int64_t passes_for(const Way& way, std::int64_t samples) {
  return std::max<std::int64_t>(1, ceil_div(samples, way.micro_batch));
}

// Replica by replica, in each of which they are dealt in turns (train/assignment.h).
comm::LeafOwners workers_of_units(const Way& way) {
  std::vector<std::int32_t> counts;
  const std::int32_t lanes = std::min(way.lanes, way.slices);
  for (std::int32_t rank = 0; rank < way.workers; ++rank) {
    const auto slices = static_cast<std::int32_t>(even_share(way.slices, way.workers, rank).size());
    counts.push_back(way.ordered ? slices : std::min(slices, lanes));
  }
  if (!way.ordered) return comm::owners_by_count(counts);
  comm::LeafOwners owners;
  for (std::int32_t first = 0; first < way.workers; first += way.shard_count()) {
    const auto begin = counts.begin() + first;
    for (const Rank shard : comm::owners_in_turns({begin, begin + way.shard_count()}))
      owners.push_back(Rank{first + to_int(shard)});
  }
  return owners;
}

// The workers of a replica are neighbours.
Units units_of(const Way& way) {
  Units units{.workers = workers_of_units(way),
              .owners = {},
              .passes = {},
              .width = std::min(way.lanes, way.slices)};
  for (const Rank worker : units.workers)
    units.owners.push_back(to_int(worker) < way.shard_count() ? worker : kNoRank);
  const auto all = static_cast<std::int64_t>(units.owners.size());
  const std::int64_t samples = way.samples > 0 ? way.samples : way.slices * way.slice_samples;
  for (std::int64_t unit = 0; unit < all; ++unit)
    units.passes.push_back(passes_for(way, way.ordered
                                               ? way.samples_of(static_cast<std::int32_t>(unit))
                                               : even_share(samples, all, unit).size()));
  return units;
}

// Of the first slot everybody has the whole.
ExchangeCost notes_cost(const ModelProfile& profile, const Units& units, const Way& way,
                        const Hardware& hardware) {
  std::int64_t notes = profile.notes;
  for (const BlockProfile& block : profile.blocks) notes += block.statistics;
  Way first = way;
  first.spread = Spread::kData;
  first.shards = 1;
  comm::LeafOwners owners;
  for (const Rank worker : units.workers) {
    const std::int32_t shard = to_int(worker) % way.shard_count();
    owners.push_back(Rank{shard * way.copies() + to_int(worker) / way.shard_count()});
  }
  return exchange_cost(first, std::span(&notes, 1), comm::SumTree(owners, way.workers), hardware);
}

// Which replica has found what of a sum.
comm::SumTree replica_tree(const Units& units, const Way& way) {
  comm::LeafOwners replicas;
  for (const Rank worker : units.workers)
    replicas.push_back(Rank{to_int(worker) / way.shard_count()});
  return comm::SumTree(replicas, way.copies());
}

// What each replica found for the first worker's shard, among those that have it.
void add_copies(const ShardedBuckets& buckets, const Units& units, const Way& way,
                const Hardware& hardware, ExchangeCost& cost) {
  if (way.copies() == 1) return;
  const comm::SumTree tree = replica_tree(units, way);
  for (const std::int64_t own : buckets.own)
    if (own > 0)
      add_copied_sum({.count = own,
                      .dtype = way.buckets.dtype,
                      .tree = way.ordered ? &tree : nullptr,
                      .copies = way.copies()},
                     hardware, cost);
}

// The first worker's units, to the owners of what is not its own.
void add_gradients(const ShardedBuckets& buckets, const Units& units, const Way& way,
                   const Hardware& hardware, ExchangeCost& cost) {
  const auto others = static_cast<std::uint64_t>(buckets.elements() - buckets.own_elements());
  std::int64_t passes = 0;
  std::uint64_t bytes = 0;
  for (std::size_t unit = 0; unit < units.owners.size(); ++unit) {
    if (units.owners[unit] != kFirst) continue;
    // What several passes add up to is rounded at the end only.
    const std::size_t element = units.passes[unit] > 1 ? kFloat : size_of(way.buckets.dtype);
    bytes += static_cast<std::uint64_t>(units.passes[unit]) * others * element;
    passes += units.passes[unit];
  }
  const std::int64_t peers = way.shard_count() - 1;
  cost.bytes += bytes;
  cost.sent += bytes;
  cost.reduce += passes * std::ssize(buckets.sizes) * peers * hardware.link.latency +
                 hardware.link.transfer(bytes);
  const std::int64_t last = buckets.sizes.empty() ? 0 : buckets.sizes.back() - buckets.own.back();
  cost.last += peers * hardware.link.latency + hardware.link.transfer(as_bytes(last));
}

void add_held(const ShardedBuckets& buckets, const Units& units, const Way& way, ShardCost& cost) {
  std::int32_t sums = layout::sums_held(units.own_replica(), way.shard_count() * units.width);
  if (way.ordered) sums = std::max(sums, replica_tree(units, way).rows(Rank{0}));
  cost.gradients.held += as_bytes(buckets.own_elements() * sums);
  const auto longest = static_cast<std::uint64_t>(buckets.longest());
  const auto width = static_cast<std::uint64_t>(units.width);
  const std::size_t narrow = way.buckets.dtype == DType::kF32 ? 0 : size_of(way.buckets.dtype);
  cost.window = longest * (kFloat + narrow) * kAhead * width;
  const std::int64_t arriving = buckets.own.empty() ? 0 : *std::ranges::max_element(buckets.own);
  cost.window += as_bytes(arriving * (way.shard_count() - 1));
  if (way.zero_stage < 3) cost.window += kRows * longest * kFloat;
}

// Everybody's updated shards, all buckets after the update.
void add_sharing(const ShardedBuckets& buckets, const Way& way, const Hardware& hardware,
                 ExchangeCost& cost) {
  const std::int64_t peers = way.shard_count() - 1;
  const std::uint64_t bytes = as_bytes(buckets.own_elements() * peers);
  cost.bytes += bytes;
  cost.sent += bytes;
  cost.gather =
      std::ssize(buckets.sizes) * peers * hardware.link.latency + hardware.link.transfer(bytes);
}

// Each block's, forward and back, for every turn.
void add_weights(const ShardProfile& shards, const Units& units, const Way& way,
                 const Hardware& hardware, ShardCost& cost) {
  const auto turns = layout::plan_turns(units.owners, units.width, units.passes);
  const auto uses =
      layout::uses_of_step(layout::own_by_turn(turns, units.owners, kFirst), shards.needed.size());
  const auto traffic = layout::traffic_of(uses, shards.needed, shards.weights.sizes);
  const std::int64_t peers = way.shard_count() - 1;
  cost.weights = as_bytes(shards.weights.own_elements() + traffic.most);
  const auto sent = [&](std::size_t bucket) {
    return shards.weight_bytes[bucket] * static_cast<std::uint64_t>(peers);
  };
  const auto time = [&](std::size_t bucket) {
    return peers * hardware.link.latency + hardware.link.transfer(sent(bucket));
  };
  for (std::size_t bucket = 0; bucket < traffic.gathers.size(); ++bucket) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(traffic.gathers[bucket]) * sent(bucket);
    cost.gradients.bytes += bytes;
    cost.gradients.sent += bytes;
    cost.fetch += traffic.gathers[bucket] * time(bucket);
  }
  for (const std::size_t bucket : shards.needed.front()) cost.first_fetch += time(bucket);
}

}  // namespace

ShardCost shard_cost(const ModelProfile& profile, const Way& way, const Hardware& hardware) {
  const bool cuts_weights = way.zero_stage > 2;
  const ShardProfile& shards = *profile.shards_among(way.shard_count());
  const ShardedBuckets& buckets = cuts_weights ? shards.by_block : shards.gradients;
  const Units units = units_of(way);
  ShardCost cost{.gradients = notes_cost(profile, units, way, hardware)};
  add_held(buckets, units, way, cost);
  if (way.shard_count() > 1) add_gradients(buckets, units, way, hardware, cost.gradients);
  add_copies(buckets, units, way, hardware, cost.gradients);
  if (cuts_weights)
    add_weights(shards, units, way, hardware, cost);
  else if (way.shard_count() > 1)
    add_sharing(buckets, way, hardware, cost.gradients);
  return cost;
}

}  // namespace muster::plan
