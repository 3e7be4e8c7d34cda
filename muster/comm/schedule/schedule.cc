#include "muster/comm/schedule.h"

#include <algorithm>

#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

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

void plan_all_reduce(Plan& plan, Algorithm algorithm, Position me, Slice all) {
  if (me.size == 1) return;
  if (algorithm == Algorithm::kDirect) return direct_all_reduce(plan, me, all);
  if (algorithm == Algorithm::kDoubleTree) return plan_double_tree_all_reduce(plan, me, all);
  if (algorithm == Algorithm::kTree) {
    plan_tree_reduce(plan, me, all);
    return plan_broadcast(plan, Algorithm::kTree, me, 0, all);
  }
  const Blocks blocks = even_blocks(all, me.size);
  plan_reduce_scatter(plan, algorithm, me, blocks);
  plan_all_gather(plan, algorithm, me, blocks);
}

Schedule all_reduce_schedule(Algorithm algorithm, Position me, std::int64_t count) {
  Plan plan;
  plan_all_reduce(plan, algorithm, me, {Space::kOutput, 0, count});
  return plan.take();
}

Schedule ordered_all_reduce_schedule(const SumTree& tree, Rank rank, std::int64_t count) {
  Plan plan;
  const Position me{rank, tree.size()};
  if (me.size == 1) return plan.take();  // one rank holds the whole tree: row 0 is the total
  const Blocks owned = even_blocks({Space::kOutput, 0, count}, me.size);
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
  plan_broadcast(plan, algorithm, me, to_int(root), {Space::kOutput, 0, count});
  return plan.take();
}

}  // namespace muster::comm
