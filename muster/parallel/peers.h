#pragma once
// The ranks that hold the same parameters as this one, as one generation connects them: gradients
// are summed over all of them. Along the mesh's axis `shard` each keeps another shard of the
// optimizer's state; the others keep copies of these. One thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/layout/mesh.h"
#include "muster/parallel/mesh_place.h"

namespace muster::parallel {

class Peers {
 public:
  Peers() = default;
  // `axes`: along which ranks hold the same parameters, kShard among them. Collective over
  // `ranks`, which are those of the place's mesh.
  static Result<Peers> connect(const std::shared_ptr<comm::Communicator>& ranks,
                               const MeshPlace& place, std::vector<layout::Axis> axes);

  std::int32_t shards() const { return place_.mesh.extent(layout::Axis::kShard); }
  std::int32_t copies() const { return all_->group().size / shards(); }  // of each shard

  // All of them, the copies of a shard next to each other, shards in order.
  const std::shared_ptr<comm::Communicator>& all() const noexcept { return all_; }
  // With several shards: one rank of each, in order; and those that keep the same one.
  const std::shared_ptr<comm::Communicator>& one_of_each() const noexcept { return one_of_each_; }
  const std::shared_ptr<comm::Communicator>& alike() const noexcept { return alike_; }

  // Who of them computes each slice, as a rank of all(): the one that meets owners[i] in it, at
  // the same place along the axes of the mesh that are not theirs.
  comm::LeafOwners owners(const comm::LeafOwners& owners) const;

 private:
  std::int32_t rank_in_all(Rank rank) const;
  Result<std::shared_ptr<comm::Communicator>> connect_all(
      const std::shared_ptr<comm::Communicator>& ranks) const;

  MeshPlace place_;
  std::vector<layout::Axis> axes_;
  std::shared_ptr<comm::Communicator> all_, one_of_each_, alike_;
};

}  // namespace muster::parallel
