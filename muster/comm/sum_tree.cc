#include "muster/comm/sum_tree.h"

#include <fmt/format.h>

#include "muster/base/check.h"
#include "muster/base/share.h"

namespace muster::comm {
namespace {

// Appends the maximal whole subtrees of `node` that lie inside `range`.
void cover(LeafRange node, LeafRange range, std::vector<LeafRange>& parts) {
  if (node.end <= range.begin || range.end <= node.begin) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    parts.push_back(node);
    return;
  }
  const std::int32_t middle = split_point(node);
  cover({node.begin, middle}, range, parts);
  cover({middle, node.end}, range, parts);
}

// Appends the sums that finish `node` and returns the part that then holds it. `next` is the first
// part not yet used: depth first, left to right, parts come in their own order.
std::int32_t finish(LeafRange node, const std::vector<LeafRange>& parts, std::int32_t& next,
                    std::vector<SumTree::Sum>& sums) {
  if (parts[static_cast<std::size_t>(next)] == node) return next++;
  const std::int32_t middle = split_point(node);
  const std::int32_t left = finish({node.begin, middle}, parts, next, sums);
  const std::int32_t right = finish({middle, node.end}, parts, next, sums);
  sums.push_back({left, right});
  return left;
}

}  // namespace

LeafRange even_share(std::int32_t total, std::int32_t parts, std::int32_t index) noexcept {
  const Share share = muster::even_share(total, parts, index);
  return {static_cast<std::int32_t>(share.begin), static_cast<std::int32_t>(share.end)};
}

SumTree::SumTree(std::int32_t leaves, std::int32_t size) : leaves_(leaves), size_(size) {
  MUSTER_CHECK(size >= 1 && size <= leaves,
               fmt::format("[comm/sum_tree] {} leaves for {} ranks: each needs one", leaves, size));
  std::vector<LeafRange> all;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    std::vector<LeafRange> mine;
    cover({0, leaves}, even_share(leaves, size, rank), mine);
    first_part_.push_back(static_cast<std::int32_t>(all.size()));
    all.insert(all.end(), mine.begin(), mine.end());
    parts_.push_back(std::move(mine));
  }
  first_part_.push_back(static_cast<std::int32_t>(all.size()));
  std::int32_t next = 0;
  finish({0, leaves}, all, next, sums_);
}

LeafRange SumTree::range(Rank rank) const noexcept {
  return even_share(leaves_, size_, to_int(rank));
}

const std::vector<LeafRange>& SumTree::parts(Rank rank) const noexcept {
  return parts_[static_cast<std::size_t>(to_int(rank))];
}

std::int32_t SumTree::part_count() const noexcept { return first_part_.back(); }

std::int32_t SumTree::first_part(Rank rank) const noexcept {
  return first_part_[static_cast<std::size_t>(to_int(rank))];
}

}  // namespace muster::comm
