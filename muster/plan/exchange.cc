#include "muster/plan/exchange.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "muster/base/round_up.h"
#include "muster/plan/traffic.h"

namespace muster::plan {
namespace {

// The first rank's part in the collectives of buckets; without a tree any order will do.
class Collectives {
 public:
  Collectives(const comm::SumTree* tree, std::int32_t ranks, comm::Wire wire)
      : tree_(tree), me_{Rank{0}, ranks}, wire_(wire) {}

  Traffic all_reduce(std::int64_t count, std::size_t element) const {
    if (tree_) return traffic_of(comm::ordered_all_reduce_schedule(*tree_, me_.rank, count));
    const auto algorithm = choose(Kind::kAllReduce, count, element);
    Traffic most = traffic_of(comm::all_reduce_schedule(algorithm, me_, count));
    if (algorithm != comm::Algorithm::kDoubleTree) return most;
    for (std::int32_t rank = 1; rank < me_.size; ++rank) {  // the first is a root and sends less
      const Traffic other =
          traffic_of(comm::all_reduce_schedule(algorithm, {Rank{rank}, me_.size}, count));
      if (other.sent > most.sent) most = other;
    }
    return most;
  }
  Traffic reduce_scatter(std::int64_t count, std::size_t element) const {
    const comm::Shards shards = even_shards(count, me_.size);
    if (tree_) return traffic_of(comm::ordered_reduce_scatter_schedule(*tree_, me_.rank, shards));
    return traffic_of(
        comm::reduce_scatter_schedule(choose(Kind::kReduceScatter, count, element), me_, shards));
  }
  Traffic all_gather(std::int64_t count) const {
    return traffic_of(comm::all_gather_schedule(choose(Kind::kAllGather, count, sizeof(float)), me_,
                                                even_shards(count, me_.size)));
  }

 private:
  using Kind = comm::Collective::Kind;
  // As the workers do, who find nothing measured either. Most buckets are of one size.
  comm::Algorithm choose(Kind kind, std::int64_t count, std::size_t element) const {
    const auto [place, fresh] = chosen_.try_emplace({kind, count, element});
    if (fresh)
      place->second =
          comm::choose_method({kind, count, element}, {}, comm::Topology::apart(me_.size),
                              comm::default_costs(wire_))
              .algorithm;
    return place->second;
  }

  const comm::SumTree* tree_;
  const comm::Position me_;
  const comm::Wire wire_;
  mutable std::map<std::tuple<Kind, std::int64_t, std::size_t>, comm::Algorithm> chosen_;
};

// Blocks of memory as large as all gradients in which sums wait for their neighbours
// (parallel/tree_accumulator.h): a lane of its own has one for each level of the tree but the last.
std::int64_t scratch_blocks(const Way& way, const comm::SumTree& tree) {
  std::int32_t largest = 1;
  for (const comm::LeafRange& part : tree.parts(Rank{0})) largest = std::max(largest, part.size());
  const int levels = std::bit_width(static_cast<std::uint32_t>(largest - 1));
  const int free = way.passes() == 1 ? 1 : 0;  // a right-hand leaf adds itself to its neighbour
  return std::max(0, levels - free) + (std::min(way.lanes, largest) - 1);
}

struct Rows {
  std::int64_t own = 1;
  std::int64_t others = 0;  // of all other ranks together
  std::int64_t scratch = 0;
};
Rows rows_of(const Way& way, const comm::SumTree& tree) {
  const std::int64_t others = tree.size() - 1;
  if (!way.ordered) return {1, others, std::max<std::int64_t>(0, way.lanes - 1)};
  Rows rows{tree.rows(Rank{0}), 0, scratch_blocks(way, tree)};
  for (std::int32_t rank = 1; rank < tree.size(); ++rank) rows.others += tree.rows(Rank{rank});
  return rows;
}

// In shared memory a rank reads its slice of everybody's rows where they lie, and where they are
// updated each by its owner it reads the others' shards there; what it has touched of others'
// memory is resident in it as well (comm/backend/native/shared_collective.h).
std::uint64_t seen_of(std::uint64_t row, const Rows& rows, std::int32_t ranks, bool gathers) {
  const std::int64_t read = rows.others + (gathers ? ranks - 1 : 0);
  return row * static_cast<std::uint64_t>(read) / static_cast<std::uint64_t>(ranks);
}

// Who gets what of a bucket that was scattered: copies of a shard have a piece of it each and get
// the others'; then everybody gets the updated shards (parallel/exchanged_shards.cc).
class Gathers {
 public:
  Gathers(std::int32_t copies, std::int32_t shards, const Hardware& hardware)
      : link_(hardware.link),
        shards_(shards),
        among_copies_(nullptr, copies, hardware.wire),
        among_shards_(nullptr, shards, hardware.wire),
        copies_(copies) {}

  void add(std::int64_t count, ExchangeCost& cost) const {
    if (copies_ > 1) add(among_copies_.all_gather(ceil_div(count, shards_)), cost);
    if (shards_ > 1) add(among_shards_.all_gather(count), cost);
  }

 private:
  void add(const Traffic& traffic, ExchangeCost& cost) const {
    cost.sent += static_cast<std::uint64_t>(traffic.sent) * sizeof(float);
    cost.gather += time_of(traffic, sizeof(float), link_);
  }

  const layout::LinkCost link_;
  const std::int32_t shards_;
  const Collectives among_copies_, among_shards_;
  const std::int32_t copies_;
};

// Who has a share of the slices, as a mesh counts (layout/mesh.h): experts fastest, then shards.
struct Holder {
  Holder(Rank rank, const Way& way)
      : replica(to_int(rank) / way.expert / way.shard_count()),
        shard(to_int(rank) / way.expert % way.shard_count()),
        expert(to_int(rank) % way.expert) {}
  std::int32_t replica, shard, expert;
};

}  // namespace

comm::SumTree sum_tree_of(const Way& way) {
  const std::int32_t shards = way.shard_count(), copies = way.copies() * way.context;
  const comm::LeafOwners replicas = comm::even_owners(way.slices, way.replicas());
  comm::LeafOwners leaves;
  for (std::int32_t sharer = 0; sharer < way.context; ++sharer)
    for (const Rank replica : replicas) {
      const Holder holder(replica, way);
      const std::int32_t copy = holder.replica * way.expert + holder.expert;
      leaves.push_back(Rank{holder.shard * copies + copy * way.context + sharer});
    }
  return comm::SumTree(leaves, shards * copies);
}

comm::SumTree expert_tree_of(const Way& way) {
  const std::int32_t copies = way.copies() / way.expert;
  comm::LeafOwners leaves;
  for (const Rank replica : comm::even_owners(way.slices, way.replicas())) {
    const Holder holder(replica, way);
    leaves.push_back(Rank{holder.shard * copies + holder.replica});
  }
  return comm::SumTree(leaves, way.shard_count() * copies);
}

ExchangeCost exchange_cost(const Way& way, std::span<const std::int64_t> counts,
                           const comm::SumTree& tree, const Hardware& hardware) {
  const std::int32_t ranks = tree.size(), shards = way.shard_count();
  const bool sharded = way.spread == Spread::kSharded || shards > 1;
  layout::BucketSizes sizes = way.buckets;
  sizes.first_slot_alone = sharded;
  const layout::BucketLayout layout = layout::plan_buckets(counts, sizes);
  const Collectives collectives(way.ordered ? &tree : nullptr, ranks, hardware.wire);
  const Gathers gather(ranks / shards, shards, hardware);
  const Rows rows = rows_of(way, tree);
  ExchangeCost cost;
  for (std::size_t b = 0; b < layout.sizes.size(); ++b) {
    const std::int64_t count = layout.sizes[b];
    const std::size_t element = size_of(layout.dtypes[b]);
    const auto bytes = static_cast<std::uint64_t>(count * rows.own) * element;
    const auto floats = static_cast<std::uint64_t>(count) * sizeof(float);
    const std::uint64_t own = floats * static_cast<std::uint64_t>(rows.own);
    cost.bytes += bytes;
    cost.held += bytes + floats * static_cast<std::uint64_t>(rows.scratch);
    if (element != sizeof(float)) cost.held += own;  // summed up in f32
    if (way.elastic && way.ordered && ranks > 1) cost.kept += own;
    if (ranks == 1) continue;
    const bool gathers = sharded && b > 0;
    if (hardware.wire == comm::Wire::kMemory)
      cost.seen += seen_of(static_cast<std::uint64_t>(count) * element, rows, ranks, gathers);
    const Traffic reduced = gathers ? collectives.reduce_scatter(count, element)
                                    : collectives.all_reduce(count, element);
    cost.sent += static_cast<std::uint64_t>(reduced.sent) * element;
    cost.last = time_of(reduced, element, hardware.link);
    cost.reduce += cost.last;
    if (gathers) gather.add(count, cost);
  }
  cost.held += cost.kept;
  return cost;
}

void add_copied_sum(const CopiedSum& sum, const Hardware& hardware, ExchangeCost& cost) {
  const Collectives collectives(sum.tree, sum.copies, hardware.wire);
  const std::size_t element = size_of(sum.dtype);
  const std::int64_t rows = sum.tree ? sum.tree->rows(Rank{0}) : 1;
  const Traffic traffic = collectives.all_reduce(sum.count, element);
  cost.bytes += static_cast<std::uint64_t>(sum.count * rows) * element;
  cost.sent += static_cast<std::uint64_t>(traffic.sent) * element;
  cost.last += time_of(traffic, element, hardware.link);
  cost.reduce += time_of(traffic, element, hardware.link);
}

}  // namespace muster::plan
