#pragma once
// The experts of a mixture that the ranks along the mesh's axis `expert` hold between them, whole
// (GShard: Lepikhin et al. 2021; without padding as MegaBlocks: Gale et al. 2023), as one of these
// ranks sees them. Each of them computes slices of its own, as many passes as the others and in the
// same order; in a layer of experts tokens travel to the ranks of theirs and the answers back,
// exactly as many as are routed there (models/experts_over_ranks.h).
//
// An expert's gradients are summed by its holder over the slices of its replica, and then over the
// replicas, along the fixed tree of slices; its update is made from these sums, along `shard` by
// each of these its share (peer_update.h). What is no expert's is not its business. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/expert/expert_ranks.h"
#include "muster/parallel/expert/held_experts.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/together.h"

namespace muster::parallel {

class DealtExperts {
 public:
  DealtExperts(MeshPlace place, const comm::OpOptions& op);

  models::TensorShare share() const noexcept { return ranks_->share(); }
  bool are_dealt() const noexcept { return share().size > 1; }  // else all are here

  // `model`, which is not initialised and outlives this, keeps this rank's share of its experts and
  // computes with the others from here on. It is `whole`, or some of its blocks, among which there
  // may be none with experts. kUnsupported says why they cannot be dealt. Once.
  Status deal(models::Model& model, const models::Model& whole);
  // Their update, after deal(). `together`: outlives it.
  Status create_update(const optim::CreateOptimizer& create, BucketSizes sizes,
                       const Together& together, OnLanes on_lanes);

  // In each generation, of all ranks of the mesh. Collective.
  Status connect(const std::shared_ptr<comm::Communicator>& ranks);
  // Then: owners[i] is the first rank that computes slice i; of every rank that does so, as many.
  // `together`: along which axes ranks compute the same slices.
  Status enter(const comm::LeafOwners& owners, const std::vector<layout::Axis>& together);

  void begin(std::optional<Duration> timeout);  // a step, before its passes
  Status finish();  // waits for the sums that this rank updates from; after all of its passes

  // None where nothing of the experts here is trained; of Model::expert_parameters().
  PeerUpdate* update() const noexcept { return update_.get(); }

  // [ranks, …]: what every rank of the group has. Throws where one does not come.
  at::Tensor gather(const at::Tensor& own, std::string_view what) const {
    return ranks_->gather(own, what);
  }
  // Handed to other ranks since the last call or begin(), and for the sums of this step.
  std::uint64_t take_bytes() { return ranks_->take_bytes() + held_->bytes(); }
  // What made a pass throw, since the last call: libtorch passes on no more than its text.
  std::optional<Error> take_failure() { return ranks_->take_failure(); }

 private:
  const MeshPlace place_;
  const comm::OpOptions op_;
  const std::shared_ptr<ExpertRanks> ranks_;
  std::optional<HeldExperts> held_;  // once they are dealt
  std::unique_ptr<PeerUpdate> update_;
  BucketSizes sizes_;

  // Of the present generation:
  Peers holders_;  // of the same experts, in all replicas and shards
};

}  // namespace muster::parallel
