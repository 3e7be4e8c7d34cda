#include <algorithm>
#include <ranges>

#include "muster/base/check.h"
#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

// Blocks [first, first + count), wrapping round, as one or two contiguous slices.
std::vector<Slice> join(const Blocks& blocks, std::int32_t first, std::int32_t count) {
  const auto size = static_cast<std::int32_t>(blocks.size());
  std::vector<Slice> slices;
  for (std::int32_t i = 0; i < count; ++i) {
    const Slice& block = blocks[static_cast<std::size_t>(wrap(first + i, size))];
    if (!slices.empty() && slices.back().begin + slices.back().count == block.begin) {
      slices.back().count += block.count;
    } else {
      slices.push_back(block);
    }
  }
  return slices;
}

// The rounds of the circulant all-gather: a rank that holds `have` blocks, its own first, gets
// `more` from the rank `have` further on.
struct Round {
  std::int32_t have;
  std::int32_t more;
};
std::vector<Round> circulant_rounds(std::int32_t size) {
  std::vector<Round> rounds;
  for (std::int32_t have = 1; have < size; have *= 2)
    rounds.push_back({have, std::min(have, size - have)});
  return rounds;
}

std::int64_t largest(const Blocks& blocks) {
  return std::ranges::max_element(blocks, {}, &Slice::count)->count;
}

void ring_reduce_scatter(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  const Slice room = plan.scratch(largest(blocks));
  for (std::int32_t k = 0; k < me.size - 1; ++k) {
    const Slice& out = blocks[static_cast<std::size_t>(wrap(rank - 1 - k, me.size))];
    const Slice& in = blocks[static_cast<std::size_t>(wrap(rank - 2 - k, me.size))];
    const Slice received{room.space, room.begin, in.count};
    plan.send(wrap(rank + 1, me.size), out);
    plan.recv(wrap(rank - 1, me.size), received);
    plan.reduce(in, received);
  }
}

void ring_all_gather(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  for (std::int32_t k = 0; k < me.size - 1; ++k) {
    plan.send(wrap(rank + 1, me.size), blocks[static_cast<std::size_t>(wrap(rank - k, me.size))]);
    plan.recv(wrap(rank - 1, me.size),
              blocks[static_cast<std::size_t>(wrap(rank - k - 1, me.size))]);
  }
}

// The all-gather played backwards: what was received is now given away, partial sums flow home.
void circulant_reduce_scatter(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  const auto rounds = circulant_rounds(me.size);
  for (const auto& [have, more] : rounds | std::views::reverse) {
    for (const Slice& slice : join(blocks, rank + have, more))
      plan.send(wrap(rank + have, me.size), slice);
    for (const Slice& slice : join(blocks, rank, more)) {
      const Slice received = plan.scratch(slice.count);
      plan.recv(wrap(rank - have, me.size), received);
      plan.reduce(slice, received);
    }
  }
}

void circulant_all_gather(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  for (const auto& [have, more] : circulant_rounds(me.size)) {
    for (const Slice& slice : join(blocks, rank, more))
      plan.send(wrap(rank - have, me.size), slice);
    for (const Slice& slice : join(blocks, rank + have, more))
      plan.recv(wrap(rank + have, me.size), slice);
  }
}

// Everybody's share straight to its owner, who adds in rank order.
void direct_reduce_scatter(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  const Slice& mine = blocks[static_cast<std::size_t>(rank)];
  std::vector<Slice> shares(static_cast<std::size_t>(me.size));
  for (Slice& share : shares) share = plan.scratch(mine.count);
  plan.copy(shares[static_cast<std::size_t>(rank)], mine);
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t to = wrap(rank + k, me.size);
    plan.send(to, blocks[static_cast<std::size_t>(to)]);
  }
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t from = wrap(rank - k, me.size);
    plan.recv(from, shares[static_cast<std::size_t>(from)]);
  }
  for (std::size_t i = 1; i < shares.size(); ++i) plan.reduce(shares[0], shares[i]);
  plan.copy(mine, shares[0]);
}

void direct_all_gather(Plan& plan, Position me, const Blocks& blocks) {
  const std::int32_t rank = to_int(me.rank);
  for (std::int32_t k = 1; k < me.size; ++k)
    plan.send(wrap(rank + k, me.size), blocks[static_cast<std::size_t>(rank)]);
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t from = wrap(rank - k, me.size);
    plan.recv(from, blocks[static_cast<std::size_t>(from)]);
  }
}

}  // namespace

void plan_reduce_scatter(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks) {
  if (me.size == 1) return;
  if (algorithm == Algorithm::kRing) return ring_reduce_scatter(plan, me, blocks);
  if (algorithm == Algorithm::kHalvingDoubling) return circulant_reduce_scatter(plan, me, blocks);
  if (algorithm == Algorithm::kBidirectionalRing)
    return plan_bidirectional_reduce_scatter(plan, me, blocks);
  MUSTER_CHECK(algorithm == Algorithm::kDirect, "a reduce-scatter has no such schedule");
  direct_reduce_scatter(plan, me, blocks);
}

void plan_all_gather(Plan& plan, Algorithm algorithm, Position me, const Blocks& blocks) {
  if (me.size == 1) return;
  if (algorithm == Algorithm::kRing) return ring_all_gather(plan, me, blocks);
  if (algorithm == Algorithm::kHalvingDoubling) return circulant_all_gather(plan, me, blocks);
  if (algorithm == Algorithm::kBidirectionalRing)
    return plan_bidirectional_all_gather(plan, me, blocks);
  MUSTER_CHECK(algorithm == Algorithm::kDirect, "an all-gather has no such schedule");
  direct_all_gather(plan, me, blocks);
}

}  // namespace muster::comm
