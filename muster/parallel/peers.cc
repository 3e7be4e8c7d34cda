#include "muster/parallel/peers.h"

#include <algorithm>
#include <utility>

namespace muster::parallel {

using layout::Axis;

Result<Peers> Peers::connect(const std::shared_ptr<comm::Communicator>& ranks,
                             const MeshPlace& place, std::vector<Axis> axes) {
  Peers peers;
  peers.place_ = place;
  peers.axes_ = std::move(axes);
  MUSTER_ASSIGN(peers.all_, peers.connect_all(ranks));
  if (peers.shards() == 1) return peers;
  if (peers.copies() == 1) {
    peers.one_of_each_ = peers.all_;
    return peers;
  }
  const auto across = place.part({Axis::kShard});
  MUSTER_ASSIGN(peers.one_of_each_, ranks->split(across.color, across.key));
  std::vector<Axis> others = peers.axes_;
  std::erase(others, Axis::kShard);
  const auto copies = place.part(others);
  MUSTER_ASSIGN(peers.alike_, ranks->split(copies.color, copies.key));
  return peers;
}

// Where that is everybody in their own order, it is the communicator that is there.
Result<std::shared_ptr<comm::Communicator>> Peers::connect_all(
    const std::shared_ptr<comm::Communicator>& ranks) const {
  const std::vector<Rank> all = place_.mesh.group(Rank{0}, axes_);
  bool same = std::ssize(all) == place_.mesh.size();
  for (const Rank rank : all) same = same && rank_in_all(rank) == to_int(rank);
  if (same) return ranks;
  return ranks->split(place_.part(axes_).color, rank_in_all(place_.group.rank));
}

// Copies of a shard in the order of ranks.
std::int32_t Peers::rank_in_all(Rank rank) const {
  std::vector<Axis> others = axes_;
  std::erase(others, Axis::kShard);
  const auto copies = place_.mesh.group(rank, others);
  const auto copy = std::ranges::find(copies, rank) - copies.begin();
  return place_.mesh.coordinates(rank)[Axis::kShard] * static_cast<std::int32_t>(copies.size()) +
         static_cast<std::int32_t>(copy);
}

comm::LeafOwners Peers::owners(const comm::LeafOwners& owners) const {
  comm::LeafOwners within(owners.size());
  std::ranges::transform(owners, within.begin(),
                         [this](Rank owner) { return Rank{rank_in_all(owner)}; });
  return within;
}

}  // namespace muster::parallel
