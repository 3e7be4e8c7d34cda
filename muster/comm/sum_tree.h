#pragma once
// The fixed binary tree in which ordered mode sums gradients, so that the bits do not depend on how
// many workers there were. Leaves are virtual workers 0 … leaves-1. The tree over [lo, hi) splits
// at lo + the largest power of two below hi - lo, as a binary counter would; so aligned blocks of
// 2^k leaves are subtrees whatever the total. Usually a rank holds a contiguous range of leaves,
// which is at most 2·log2(leaves) whole subtrees: its parts, in leaf order. After a death the
// survivors finish the step with leaves that need not be neighbours; the tree stays the same. A
// rank may have no leaves: it only gets the total.
// All of it is pure and thread-safe.

#include <bit>
#include <cstdint>
#include <vector>

#include "muster/base/ids.h"

namespace muster::comm {

struct LeafRange {
  std::int32_t begin = 0;
  std::int32_t end = 0;
  constexpr std::int32_t size() const noexcept { return end - begin; }
  friend bool operator==(const LeafRange&, const LeafRange&) = default;
};

// Items [0, total) cut into `parts` contiguous ranges whose sizes differ by at most one, the larger
// first: how leaves go to ranks and samples to slices.
LeafRange even_share(std::int32_t total, std::int32_t parts, std::int32_t index) noexcept;

// Where the tree over `range` (two leaves or more) splits.
constexpr std::int32_t split_point(LeafRange range) noexcept {
  return range.begin +
         static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(range.size() - 1)));
}

// Which rank computes each leaf.
using LeafOwners = std::vector<Rank>;

// Neighbours to the same rank, ranks in order; counts[r] of them to rank r.
LeafOwners owners_by_count(const std::vector<std::int32_t>& counts);

// counts[r] of them to rank r, one to each rank in turn as long as it wants more.
LeafOwners owners_in_turns(const std::vector<std::int32_t>& counts);

// Dealt to `size` ranks by even_share.
LeafOwners even_owners(std::int32_t leaves, std::int32_t size);

// Who finishes a step that `before` began: ranks that are still there keep their leaves, the others
// are dealt out in rank order so that those who have few get more. `rank_now[r]`: what rank r is
// now, kNoRank: gone. Ranks stay in their order.
LeafOwners inherit_leaves(const LeafOwners& before, const std::vector<Rank>& rank_now);

class SumTree {
 public:
  // At least one leaf; owners below `size`.
  SumTree(const LeafOwners& owners, std::int32_t size);
  SumTree(std::int32_t leaves, std::int32_t size) : SumTree(even_owners(leaves, size), size) {}

  std::int32_t leaves() const noexcept { return leaves_; }
  std::int32_t size() const noexcept { return size_; }
  std::uint64_t fingerprint() const noexcept { return fingerprint_; }  // of who owns which leaf

  // The maximal whole subtrees of the rank's own leaves, in leaf order.
  const std::vector<LeafRange>& parts(Rank rank) const noexcept;
  // Rows of a buffer that holds the rank's parts and then the total: a rank without parts has one.
  std::int32_t rows(Rank rank) const noexcept;

  // How to finish the tree from everybody's parts, numbered rank by rank: sums[i] adds part
  // `right` into part `left`, in this order; part total_part() ends up with the total.
  struct Sum {
    std::int32_t left;
    std::int32_t right;
    friend bool operator==(const Sum&, const Sum&) = default;
  };
  const std::vector<Sum>& sums() const noexcept { return sums_; }
  std::int32_t part_count() const noexcept;           // of all ranks together
  std::int32_t first_part(Rank rank) const noexcept;  // number of the rank's first part
  std::int32_t total_part() const noexcept { return total_part_; }

 private:
  std::int32_t leaves_;
  std::int32_t size_;
  std::vector<std::vector<LeafRange>> parts_;
  std::vector<std::int32_t> first_part_;
  std::vector<Sum> sums_;
  std::int32_t total_part_ = 0;
  std::uint64_t fingerprint_;
};

}  // namespace muster::comm
