#pragma once
// Which worker computes which slice of a step. A value; pure.

#include <cstdint>
#include <vector>

#include "muster/base/ids.h"
#include "muster/comm/sum_tree.h"

namespace muster::train {

struct Assignment {
  comm::LeafOwners owners;            // by slice
  std::vector<std::int32_t> workers;  // by rank; numbers that a worker keeps for life

  // counts[r] neighbouring slices to rank r, in the order of ranks.
  static Assignment counted(const std::vector<std::int32_t>& counts,
                            std::vector<std::int32_t> workers);
  // The same to so many neighbouring ranks at a time, of which each gets one slice in turn.
  static Assignment in_turns(const std::vector<std::int32_t>& counts, std::int32_t ranks,
                             std::vector<std::int32_t> workers);
  // Evenly to replicas, to the first rank of each: these, ascending. So many neighbouring ones get
  // theirs in turns.
  static Assignment of_replicas(std::int32_t slices, const std::vector<Rank>& firsts,
                                std::int32_t in_turn, std::vector<std::int32_t> workers);
  // For the step that this one began: who is still there keeps his slices. `now` holds none but
  // workers of this one, in the same order.
  Assignment inherited(std::vector<std::int32_t> now) const;

  std::vector<SliceIndex> of(Rank rank) const;  // ascending
  std::vector<std::int32_t> counts() const;     // by rank
  // Slices of `rank` that the same worker did not have `before`.
  std::vector<SliceIndex> added(const Assignment& before, Rank rank) const;
  std::uint64_t fingerprint() const;  // of which worker computes which slice
};

}  // namespace muster::train
