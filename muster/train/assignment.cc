#include "muster/train/assignment.h"

#include <algorithm>
#include <utility>

#include "muster/base/random.h"

namespace muster::train {
namespace {

std::int32_t worker_of(const Assignment& assignment, std::size_t slice) {
  return assignment.workers[static_cast<std::size_t>(to_int(assignment.owners[slice]))];
}

}  // namespace

Assignment Assignment::counted(const std::vector<std::int32_t>& counts,
                               std::vector<std::int32_t> workers) {
  return {comm::owners_by_count(counts), std::move(workers)};
}

Assignment Assignment::in_turns(const std::vector<std::int32_t>& counts, std::int32_t ranks,
                                std::vector<std::int32_t> workers) {
  comm::LeafOwners owners;
  for (std::size_t first = 0; first < counts.size(); first += static_cast<std::size_t>(ranks)) {
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + std::min<std::ptrdiff_t>(ranks, counts.end() - begin);
    for (const Rank owner : comm::owners_in_turns({begin, end}))
      owners.push_back(Rank{to_int(owner) + static_cast<std::int32_t>(first)});
  }
  return {std::move(owners), std::move(workers)};
}

Assignment Assignment::of_replicas(std::int32_t slices, const std::vector<Rank>& firsts,
                                   std::int32_t in_turn, std::vector<std::int32_t> workers) {
  const auto replicas = static_cast<std::int32_t>(firsts.size());
  std::vector<std::int32_t> counts;
  counts.reserve(firsts.size());
  for (std::int32_t replica = 0; replica < replicas; ++replica)
    counts.push_back(comm::even_share(slices, replicas, replica).size());
  Assignment dealt = in_turns(counts, in_turn, std::move(workers));
  for (Rank& owner : dealt.owners) owner = firsts[static_cast<std::size_t>(to_int(owner))];
  return dealt;
}

Assignment Assignment::inherited(std::vector<std::int32_t> now) const {
  std::vector<Rank> rank_now;
  for (const std::int32_t worker : workers) {
    const auto found = std::find(now.begin(), now.end(), worker);
    rank_now.push_back(found == now.end() ? kNoRank
                                          : Rank{static_cast<std::int32_t>(found - now.begin())});
  }
  return {comm::inherit_leaves(owners, rank_now), std::move(now)};
}

std::vector<SliceIndex> Assignment::of(Rank rank) const {
  std::vector<SliceIndex> slices;
  for (std::size_t slice = 0; slice < owners.size(); ++slice)
    if (owners[slice] == rank) slices.push_back(SliceIndex{static_cast<std::int32_t>(slice)});
  return slices;
}

std::vector<std::int32_t> Assignment::counts() const {
  std::vector<std::int32_t> counts(workers.size());
  for (const Rank owner : owners) ++counts[static_cast<std::size_t>(to_int(owner))];
  return counts;
}

std::vector<SliceIndex> Assignment::added(const Assignment& before, Rank rank) const {
  std::vector<SliceIndex> slices = of(rank);
  std::erase_if(slices, [&](SliceIndex slice) {
    const auto index = static_cast<std::size_t>(to_int(slice));
    return worker_of(before, index) == worker_of(*this, index);
  });
  return slices;
}

std::uint64_t Assignment::fingerprint() const {
  std::vector<std::int32_t> by_slice;
  by_slice.reserve(owners.size());
  for (std::size_t slice = 0; slice < owners.size(); ++slice)
    by_slice.push_back(worker_of(*this, slice));
  return stable_hash(by_slice);
}

}  // namespace muster::train
