#include "muster/comm/schedule.h"

#include <algorithm>
#include <bit>

#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

// Ranks counted from the root of a binomial tree; the parent of v is v without its lowest bit.
void binomial_reduce(Plan& plan, Position me, Slice all) {
  const std::int32_t v = to_int(me.rank);
  const Slice received = plan.scratch(all.count);
  for (std::int32_t bit = 1; bit < me.size; bit *= 2) {
    if ((v & bit) != 0) return plan.send(v - bit, all);
    if (v + bit >= me.size) continue;
    plan.recv(v + bit, received);
    plan.reduce(all, received);
  }
}

void binomial_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  const std::int32_t v = wrap(to_int(me.rank) - root, me.size);
  const auto above = static_cast<std::int32_t>(std::bit_ceil(static_cast<std::uint32_t>(me.size)));
  const std::int32_t lowest = v == 0 ? above : (v & -v);
  if (v != 0) plan.recv(wrap(v - lowest + root, me.size), all);
  for (std::int32_t bit = lowest / 2; bit > 0; bit /= 2)
    if (v + bit < me.size) plan.send(wrap(v + bit + root, me.size), all);
}

// Pieces, so that a chain's links all work at once.
constexpr std::int64_t kChainPiece = 32 * 1024;  // elements

void chain_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  const std::int32_t v = wrap(to_int(me.rank) - root, me.size);
  for (std::int64_t begin = 0; begin < all.count; begin += kChainPiece) {
    const Slice piece{all.space, all.begin + begin, std::min(kChainPiece, all.count - begin)};
    if (v > 0) plan.recv(wrap(v - 1 + root, me.size), piece);
    if (v + 1 < me.size) plan.send(wrap(v + 1 + root, me.size), piece);
  }
}

void direct_broadcast(Plan& plan, Position me, std::int32_t root, Slice all) {
  if (to_int(me.rank) != root) return plan.recv(root, all);
  for (std::int32_t k = 1; k < me.size; ++k) plan.send(wrap(root + k, me.size), all);
}

// One round; every rank adds in rank order, so all get the same bits.
void direct_all_reduce(Plan& plan, Position me, Slice all) {
  const std::int32_t rank = to_int(me.rank);
  std::vector<Slice> shares;
  shares.reserve(static_cast<std::size_t>(me.size));
  for (std::int32_t i = 0; i < me.size; ++i) shares.push_back(plan.scratch(all.count));
  for (std::int32_t k = 1; k < me.size; ++k) plan.send(wrap(rank + k, me.size), all);
  plan.copy(shares[static_cast<std::size_t>(rank)], all);
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t from = wrap(rank - k, me.size);
    plan.recv(from, shares[static_cast<std::size_t>(from)]);
  }
  for (std::size_t i = 1; i < shares.size(); ++i) plan.reduce(shares[0], shares[i]);
  plan.copy(all, shares[0]);
}

// Every rank's parts of my element range, in scratch, numbered as the tree numbers them. `owned`:
// whose elements are whose, of a row of `count`.
std::vector<Slice> collect_parts(Plan& plan, const SumTree& tree, Rank rank, const Blocks& owned,
                                 std::int64_t count) {
  const auto row = [count](std::size_t i, Slice slice) {
    slice.begin += static_cast<std::int64_t>(i) * count;
    return slice;
  };
  const std::int32_t me = to_int(rank);
  const Slice& mine = owned[static_cast<std::size_t>(me)];
  for (std::int32_t k = 1; k < tree.size(); ++k) {
    const std::int32_t to = wrap(me + k, tree.size());
    for (std::size_t i = 0; i < tree.parts(rank).size(); ++i)
      plan.send(to, row(i, owned[static_cast<std::size_t>(to)]));
  }
  std::vector<Slice> parts;
  parts.reserve(static_cast<std::size_t>(tree.part_count()));
  for (std::int32_t i = 0; i < tree.part_count(); ++i) parts.push_back(plan.scratch(mine.count));
  for (std::int32_t k = 0; k < tree.size(); ++k) {
    const std::int32_t from = wrap(me - k, tree.size());
    for (std::size_t i = 0; i < tree.parts(Rank{from}).size(); ++i) {
      const Slice& part = parts[static_cast<std::size_t>(tree.first_part(Rank{from})) + i];
      if (from == me)
        plan.copy(part, row(i, mine));
      else
        plan.recv(from, part);
    }
  }
  return parts;
}

// The total of my elements, in scratch.
Slice sum_in_order(Plan& plan, const SumTree& tree, Rank rank, const Blocks& owned,
                   std::int64_t count) {
  const std::vector<Slice> parts = collect_parts(plan, tree, rank, owned, count);
  for (const auto& [left, right] : tree.sums())
    plan.reduce(parts[static_cast<std::size_t>(left)], parts[static_cast<std::size_t>(right)]);
  return parts[static_cast<std::size_t>(tree.total_part())];
}

// The input belongs to the caller, so the work is done on a copy of it.
Schedule reduce_scatter(Algorithm algorithm, Position me, Slice work, const Blocks& blocks,
                        Plan plan) {
  const Slice& mine = blocks[static_cast<std::size_t>(to_int(me.rank))];
  plan.copy(work, {Space::kInput, 0, work.count});
  plan_reduce_scatter(plan, algorithm, me, blocks);
  plan.copy({Space::kOutput, 0, mine.count}, mine);
  return plan.take();
}

Schedule all_gather(Algorithm algorithm, Position me, const Blocks& blocks) {
  Plan plan;
  const Slice& mine = blocks[static_cast<std::size_t>(to_int(me.rank))];
  plan.copy(mine, {Space::kInput, 0, mine.count});
  plan_all_gather(plan, algorithm, me, blocks);
  return plan.take();
}

}  // namespace

Slice even_slice(Space space, std::int64_t count, std::int32_t parts, std::int32_t index) noexcept {
  const std::int64_t share = count / parts;
  const std::int64_t larger = count % parts;
  return {space, index * share + std::min<std::int64_t>(index, larger),
          share + (index < larger ? 1 : 0)};
}

Schedule all_reduce_schedule(Algorithm algorithm, Position me, std::int64_t count) {
  Plan plan;
  const Slice all{Space::kOutput, 0, count};
  if (me.size == 1) return plan.take();
  if (algorithm == Algorithm::kDirect) {
    direct_all_reduce(plan, me, all);
  } else if (algorithm == Algorithm::kTree) {
    binomial_reduce(plan, me, all);
    binomial_broadcast(plan, me, 0, all);
  } else {
    const Blocks blocks = even_blocks(Space::kOutput, count, me.size);
    plan_reduce_scatter(plan, algorithm, me, blocks);
    plan_all_gather(plan, algorithm, me, blocks);
  }
  return plan.take();
}

Schedule ordered_all_reduce_schedule(const SumTree& tree, Rank rank, std::int64_t count) {
  Plan plan;
  const Position me{rank, tree.size()};
  if (me.size == 1) return plan.take();  // one rank holds the whole tree: row 0 is the total
  const Blocks owned = even_blocks(Space::kOutput, count, me.size);
  plan.copy(owned[static_cast<std::size_t>(to_int(rank))],
            sum_in_order(plan, tree, rank, owned, count));
  plan_all_gather(plan, Algorithm::kDirect, me, owned);
  return plan.take();
}

Schedule ordered_reduce_scatter_schedule(const SumTree& tree, Rank rank, const Shards& shards) {
  Plan plan;
  const Blocks owned = shard_blocks({Space::kInput, 0, shards.count()}, shards);
  plan.copy({Space::kOutput, 0, shards.count_of(rank)},
            sum_in_order(plan, tree, rank, owned, shards.count()));
  return plan.take();
}

Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, std::int64_t count) {
  Plan plan;
  const Slice work = plan.scratch(me.size * count);
  const Blocks blocks = equal_blocks({work.space, work.begin, count}, me.size);
  return reduce_scatter(algorithm, me, work, blocks, std::move(plan));
}

Schedule reduce_scatter_schedule(Algorithm algorithm, Position me, const Shards& shards) {
  Plan plan;
  const Slice work = plan.scratch(shards.count());
  return reduce_scatter(algorithm, me, work, shard_blocks(work, shards), std::move(plan));
}

Schedule all_gather_schedule(Algorithm algorithm, Position me, std::int64_t count) {
  return all_gather(algorithm, me, equal_blocks({Space::kOutput, 0, count}, me.size));
}

Schedule all_gather_schedule(Algorithm algorithm, Position me, const Shards& shards) {
  return all_gather(algorithm, me, shard_blocks({Space::kOutput, 0, shards.count()}, shards));
}

Schedule broadcast_schedule(Algorithm algorithm, Position me, Rank root, std::int64_t count) {
  Plan plan;
  const Slice all{Space::kOutput, 0, count};
  if (algorithm == Algorithm::kDirect)
    direct_broadcast(plan, me, to_int(root), all);
  else if (algorithm == Algorithm::kRing)
    chain_broadcast(plan, me, to_int(root), all);
  else
    binomial_broadcast(plan, me, to_int(root), all);
  return plan.take();
}

Schedule all_to_all_schedule(Position me, std::int64_t count) {
  Plan plan;
  const std::int32_t rank = to_int(me.rank);
  const auto block = [count](Space space, std::int32_t i) {
    return Slice{space, i * count, count};
  };
  plan.copy(block(Space::kOutput, rank), block(Space::kInput, rank));
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t to = wrap(rank + k, me.size);
    const std::int32_t from = wrap(rank - k, me.size);
    plan.send(to, block(Space::kInput, to));
    plan.recv(from, block(Space::kOutput, from));
  }
  return plan.take();
}

Schedule barrier_schedule(Position me) {
  Plan plan;
  for (std::int32_t distance = 1; distance < me.size; distance *= 2) {
    plan.signal(wrap(to_int(me.rank) + distance, me.size));
    plan.await_signal(wrap(to_int(me.rank) - distance, me.size));
  }
  return plan.take();
}

}  // namespace muster::comm
