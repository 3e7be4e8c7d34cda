#include "muster/comm/sum_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>

#include "muster/base/check.h"
#include "muster/base/checksum.h"
#include "muster/base/share.h"

namespace muster::comm {
namespace {

// Whether all leaves of `node` belong to one rank.
bool is_whole(LeafRange node, const LeafOwners& owners) {
  const auto begin = owners.begin() + node.begin;
  return std::all_of(begin, owners.begin() + node.end, [&](Rank rank) { return rank == *begin; });
}

// Appends the maximal whole subtrees of `node`, each to its owner's.
void cover(LeafRange node, const LeafOwners& owners, std::vector<std::vector<LeafRange>>& parts) {
  if (is_whole(node, owners)) {
    const Rank owner = owners[static_cast<std::size_t>(node.begin)];
    parts[static_cast<std::size_t>(to_int(owner))].push_back(node);
    return;
  }
  const std::int32_t middle = split_point(node);
  cover({node.begin, middle}, owners, parts);
  cover({middle, node.end}, owners, parts);
}

// Appends the sums that finish `node` and returns the part that then holds it. `part_at`: by first
// leaf, the number of the part that begins there.
std::int32_t finish(LeafRange node, const LeafOwners& owners,
                    const std::vector<std::int32_t>& part_at, std::vector<SumTree::Sum>& sums) {
  if (is_whole(node, owners)) return part_at[static_cast<std::size_t>(node.begin)];
  const std::int32_t middle = split_point(node);
  const std::int32_t left = finish({node.begin, middle}, owners, part_at, sums);
  const std::int32_t right = finish({middle, node.end}, owners, part_at, sums);
  sums.push_back({left, right});
  return left;
}

}  // namespace

LeafRange even_share(std::int32_t total, std::int32_t parts, std::int32_t index) noexcept {
  const Share share = muster::even_share(total, parts, index);
  return {static_cast<std::int32_t>(share.begin), static_cast<std::int32_t>(share.end)};
}

LeafOwners owners_by_count(const std::vector<std::int32_t>& counts) {
  LeafOwners owners;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    owners.insert(owners.end(), static_cast<std::size_t>(counts[rank]),
                  Rank{static_cast<std::int32_t>(rank)});
  return owners;
}

LeafOwners owners_in_turns(const std::vector<std::int32_t>& counts) {
  const auto leaves = static_cast<std::size_t>(std::accumulate(counts.begin(), counts.end(), 0));
  LeafOwners owners;
  for (std::int32_t turn = 0; owners.size() < leaves; ++turn)
    for (std::size_t rank = 0; rank < counts.size(); ++rank)
      if (counts[rank] > turn) owners.push_back(Rank{static_cast<std::int32_t>(rank)});
  return owners;
}

LeafOwners even_owners(std::int32_t leaves, std::int32_t size) {
  std::vector<std::int32_t> counts(static_cast<std::size_t>(size));
  for (std::int32_t rank = 0; rank < size; ++rank)
    counts[static_cast<std::size_t>(rank)] = even_share(leaves, size, rank).size();
  return owners_by_count(counts);
}

LeafOwners inherit_leaves(const LeafOwners& before, const std::vector<Rank>& rank_now) {
  const auto is_here = [](Rank rank) { return rank != kNoRank; };
  std::vector<std::int32_t> counts(
      static_cast<std::size_t>(std::count_if(rank_now.begin(), rank_now.end(), is_here)));
  LeafOwners owners;
  for (const Rank owner : before) {
    owners.push_back(rank_now[static_cast<std::size_t>(to_int(owner))]);
    if (is_here(owners.back())) ++counts[static_cast<std::size_t>(to_int(owners.back()))];
  }
  std::vector<std::int32_t> more(counts.size());
  for (auto orphans = std::count(owners.begin(), owners.end(), kNoRank); orphans > 0; --orphans) {
    const auto least = std::min_element(counts.begin(), counts.end());
    ++*least;
    ++more[static_cast<std::size_t>(least - counts.begin())];
  }
  const LeafOwners heirs = owners_by_count(more);  // neighbours to one: few and large parts
  auto heir = heirs.begin();
  for (Rank& owner : owners)
    if (!is_here(owner)) owner = *heir++;
  return owners;
}

SumTree::SumTree(const LeafOwners& owners, std::int32_t size)
    : leaves_(static_cast<std::int32_t>(owners.size())),
      size_(size),
      parts_(static_cast<std::size_t>(size)),
      fingerprint_(checksum_of(std::as_bytes(std::span(owners)))) {
  MUSTER_CHECK(!owners.empty() &&
                   std::all_of(owners.begin(), owners.end(),
                               [&](Rank rank) { return to_int(rank) >= 0 && to_int(rank) < size; }),
               fmt::format("[comm/sum_tree] {} leaves for {} ranks", leaves_, size));
  cover({0, leaves_}, owners, parts_);
  std::vector<std::int32_t> part_at(owners.size(), -1);
  std::int32_t next = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) {
    first_part_.push_back(next);
    for (const LeafRange& part : parts(Rank{rank}))
      part_at[static_cast<std::size_t>(part.begin)] = next++;
  }
  first_part_.push_back(next);
  total_part_ = finish({0, leaves_}, owners, part_at, sums_);
}

const std::vector<LeafRange>& SumTree::parts(Rank rank) const noexcept {
  return parts_[static_cast<std::size_t>(to_int(rank))];
}

std::int32_t SumTree::rows(Rank rank) const noexcept {
  return std::max(1, static_cast<std::int32_t>(parts(rank).size()));
}

std::int32_t SumTree::part_count() const noexcept { return first_part_.back(); }

std::int32_t SumTree::first_part(Rank rank) const noexcept {
  return first_part_[static_cast<std::size_t>(to_int(rank))];
}

}  // namespace muster::comm
