#pragma once
// A run of a model's blocks, or several, as one worker has them: what they hold, what a pass of
// them costs and keeps. Pure; the profiles outlive it.

#include <cstdint>
#include <vector>

#include "muster/layout/partition.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/rank_messages.h"
#include "muster/plan/way.h"

namespace muster::plan {

// glibc maps what is allocated in pieces of this size or more by itself and unmaps it once it is
// freed; what is smaller stays with the heap of its thread (keep_freed_memory of
// app/worker/program), and so beside everything that comes later.
inline constexpr std::uint64_t kMappedBytes = std::uint64_t{64} << 20;

struct BriefMemory {            // bytes that are wanted for a moment only
  std::uint64_t stays = 0;      // with a heap
  std::uint64_t goes_back = 0;  // to the kernel
  std::uint64_t total() const noexcept { return stays + goes_back; }
};

class Part {
 public:
  // `waits`: by block, what its ranks wait for each other in a pass; null: they do not.
  Part(const ModelProfile& profile, const PassProfile& pass, const Way& way,
       const std::vector<BlockWaits>* waits = nullptr)
      : profile_(profile), pass_(pass), way_(way), waits_(waits) {}

  void add(layout::BlockRange blocks) { ranges_.push_back(blocks); }
  const std::vector<layout::BlockRange>& ranges() const noexcept { return ranges_; }
  bool has(std::int32_t block) const;

  // Floats of each slot: what goes with the gradients, then the parameters, the last first.
  std::vector<std::int64_t> slot_counts() const;

  std::uint64_t weights() const;     // bytes, with copies of those that are tied to others' blocks
  std::uint64_t optimizer() const;   // bytes
  std::uint64_t statistics() const;  // bytes
  std::int64_t trained() const;      // elements

  // As slot_counts(), of experts (parallel/expert/held_experts.h).
  std::vector<std::int64_t> expert_slot_counts() const;

  // Of one pass:
  layout::ChunkCost cost() const;
  std::uint64_t kept() const;         // from forward to backward
  std::uint64_t recomputing() const;  // besides, while backward runs
  // Besides, what backward has in hand. Of what stays one of the largest gradients more: once freed
  // it may be split by something that lives longer, and then the next one does not fit there.
  BriefMemory in_hand() const;

  // Of the pass by which the first worker counts operations (perf/mfu), block by block: all
  // gradients of a block together.
  BriefMemory counting() const;

  // Calls body(tied) for the weights of others' blocks.
  template <class Body>
  void each_borrowed(const Body& body) const {
    each([&](const BlockProfile& block, std::size_t) {
      for (const TiedParameter& tied : block.tied)
        if (!has(tied.owner)) body(tied);
    });
  }

 private:
  template <class Body>
  void each(const Body& body) const {
    for (const layout::BlockRange& range : ranges_)
      for (std::int32_t b = range.begin; b < range.end; ++b)
        body(profile_.blocks[static_cast<std::size_t>(b)], static_cast<std::size_t>(b));
  }
  bool recomputed(std::size_t block) const {
    return block < way_.recomputed.size() && way_.recomputed[block];
  }

  const ModelProfile& profile_;
  const PassProfile& pass_;
  const Way& way_;
  const std::vector<BlockWaits>* waits_;
  std::vector<layout::BlockRange> ranges_;
};

}  // namespace muster::plan
