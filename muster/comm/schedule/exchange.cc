// Exchanges in which everybody has something else for everybody, and the barrier.

#include <algorithm>

#include "muster/comm/schedule/plan.h"

namespace muster::comm {
namespace {

// Each block straight to its receiver, one after the other.
Schedule pairwise(Position me, const Blocks& input, const Blocks& output) {
  Plan plan;
  const std::int32_t rank = to_int(me.rank);
  const auto of = [](const Blocks& blocks, std::int32_t peer) {
    return blocks[static_cast<std::size_t>(peer)];
  };
  plan.copy(of(output, rank), of(input, rank));
  for (std::int32_t k = 1; k < me.size; ++k) {
    const std::int32_t to = wrap(rank + k, me.size);
    const std::int32_t from = wrap(rank - k, me.size);
    plan.send(to, of(input, to));
    plan.recv(from, of(output, from));
  }
  return plan.take();
}

// Runs of so many numbers in [0, size) that have `bit` in them: first number, how many.
template <class Visit>
void for_runs(std::int32_t bit, std::int32_t size, const Visit& visit) {
  for (std::int32_t first = bit; first < size; first += 2 * bit)
    visit(first, std::min(bit, size - first));
}

// Number i in `work` is what has i ranks to go yet; of these, in the round of each bit, go on all
// that have it.
Schedule bruck(Position me, std::int64_t count) {
  Plan plan;
  const std::int32_t rank = to_int(me.rank);
  const Slice work = plan.scratch(me.size * count);
  const auto at = [count](Slice in, std::int32_t first, std::int32_t blocks) {
    return Slice{in.space, in.begin + first * count, blocks * count};
  };
  const Slice input{Space::kInput, 0, me.size * count};
  plan.copy(at(work, 0, me.size - rank), at(input, rank, me.size - rank));
  plan.copy(at(work, me.size - rank, rank), at(input, 0, rank));
  for (std::int32_t bit = 1; bit < me.size; bit *= 2) {
    std::int32_t moving = 0;
    for_runs(bit, me.size, [&](std::int32_t, std::int32_t blocks) { moving += blocks; });
    const Slice leaving = plan.scratch(moving * count);
    const Slice arriving = plan.scratch(moving * count);
    std::int32_t place = 0;
    for_runs(bit, me.size, [&](std::int32_t first, std::int32_t blocks) {
      plan.copy(at(leaving, place, blocks), at(work, first, blocks));
      place += blocks;
    });
    plan.send(wrap(rank + bit, me.size), leaving);
    plan.recv(wrap(rank - bit, me.size), arriving);
    place = 0;
    for_runs(bit, me.size, [&](std::int32_t first, std::int32_t blocks) {
      plan.copy(at(work, first, blocks), at(arriving, place, blocks));
      place += blocks;
    });
  }
  const Slice output{Space::kOutput, 0, me.size * count};
  for (std::int32_t i = 0; i < me.size; ++i)
    plan.copy(at(output, wrap(rank - i, me.size), 1), at(work, i, 1));
  return plan.take();
}

}  // namespace

Schedule all_to_all_schedule(Algorithm algorithm, Position me, std::int64_t count) {
  if (algorithm == Algorithm::kBruck) return bruck(me, count);
  return pairwise(me, equal_blocks({Space::kInput, 0, count}, me.size),
                  equal_blocks({Space::kOutput, 0, count}, me.size));
}

Schedule all_to_all_schedule(Position me, const Shards& leaving, const Shards& arriving) {
  return pairwise(me, shard_blocks({Space::kInput, 0, leaving.count()}, leaving),
                  shard_blocks({Space::kOutput, 0, arriving.count()}, arriving));
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
