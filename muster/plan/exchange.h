#pragma once
// What the reduction of gradients moves and holds: the buckets that the strategies reduce
// (layout/bucket_layout.h), in the schedules that they are reduced with (comm/schedule.h). Pure.

#include <cstdint>
#include <span>

#include "muster/plan/way.h"

namespace muster::plan {

struct ExchangeCost {
  // Of the first worker, whose rows are the most:
  std::uint64_t bytes = 0;  // handed to the communicator: perf/bytes_on_wire
  std::uint64_t sent = 0;   // of its own to others, as the schedules have it
  std::uint64_t held = 0;   // the buckets, what is summed up on the way, what is kept for a retry
  std::uint64_t kept = 0;   // of this, what is kept for a retry
  std::uint64_t seen = 0;   // of others' buckets, in memory that all of a host share
  Duration reduce{};        // of all buckets
  Duration last{};          // of the last one, which nothing hides
  Duration gather{};        // sharded: everybody gets the updated weights
};

// Who sums the gradients of which leaf, among all that have a part of a sum: a leaf is a slice, and
// where workers share sequences what each of them finds of it (parallel/context). Copies of a shard
// are neighbours (parallel/peers.h).
comm::SumTree sum_tree_of(const Way& way);
// The same of an expert's, among those that hold it: each sums the slices of all workers of its
// replica (parallel/expert/held_experts.h).
comm::SumTree expert_tree_of(const Way& way);

// `counts`: floats of each slot, as parallel/slice_gradients.h has them. `tree`: among whom.
ExchangeCost exchange_cost(const Way& way, std::span<const std::int64_t> counts,
                           const comm::SumTree& tree, const Hardware& hardware);

// The first rank's part in adding up, among `copies` of a shard, what they have of it in so many
// rows (parallel/shard_exchange.h). Adds to `cost`.
struct CopiedSum {
  std::int64_t count = 0;  // elements
  DType dtype = DType::kF32;
  const comm::SumTree* tree = nullptr;  // null: any order
  std::int32_t copies = 1;
};
void add_copied_sum(const CopiedSum& sum, const Hardware& hardware, ExchangeCost& cost);

}  // namespace muster::plan
