#pragma once
// Context parallelism: the ranks of a group have some positions of every sequence each, and compute
// all slices together. Everything but attention is computed position by position; attention meets
// the other positions by exchanging heads for them (DeepSpeed-Ulysses: Jacobs et al. 2023) or by
// passing keys and values around (ring attention: Liu et al. 2023; models/context_attention.h). So
// activations, not weights, are shared out: for sequences that one rank cannot hold.
//
// Of the mesh the axis `context` is along these ranks; along `replicate` and `shard` there are
// replicas. Slices go to replicas. Of each slice a rank finds the gradients of its positions: the
// fixed tree has a leaf for each of these, one rank's slices next to each other, so that one
// reduction sums over positions and slices, and all ranks update alike, along `shard` each its
// share of the optimizer's state (peer_update.h). Random numbers are those of the whole sequences.
//
// So the result is that of plain data parallelism but for rounding; it does not depend on the
// number of replicas. For a rank that dies another one takes its place. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/context/context_ranks.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/slice_strategy.h"

namespace muster::parallel {

class ContextParallel final : public SliceStrategy {
 public:
  // `model`: initialised alike on every rank. One lane, ordered mode, not elastic. kUnsupported:
  // ranks cannot share the sequences of such a model.
  static Result<std::unique_ptr<ContextParallel>> create(
      std::unique_ptr<models::Model> model, models::ContextAttention attention,
      const optim::CreateOptimizer& create_optimizer, SliceOptions options, const MeshPlace& place,
      Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }
  std::int32_t ranks_per_replica() const override { return ranks_->share().size; }
  Rank first_of_replica(Rank rank) const override;
  std::int32_t part_of(Rank rank) const override {
    return place_.part_of(rank, {layout::Axis::kReplicate, layout::Axis::kContext});
  }

  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override;

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status warm_up(const data::StepBatch& batch) override;
  Status use_average(bool average) override { return update_->use_average(average); }

  std::vector<StateSlice> optimizer_state() override { return update_->optimizer().state(); }
  Result<State> gather_state(Rank to) override;
  std::vector<StateSlice> replicated_state() override;
  bool holds_all() const override { return update_->optimizer().shards() == 1; }
  void set_optimizer_steps(std::int64_t steps) override { update_->optimizer().set_steps(steps); }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;

 private:
  ContextParallel(std::unique_ptr<models::Model> model, std::shared_ptr<ContextRanks> ranks,
                  MeshPlace place, SliceOptions options, Clock& clock);
  Rank neighbour(Rank rank, std::int32_t along_context) const;
  Status compute(const StepInput& input, StepReport& report);

  const MeshPlace place_;
  const std::shared_ptr<ContextRanks> ranks_;
  std::unique_ptr<PeerUpdate> update_;
  GatheredState gathered_;                            // of the optimizer, until the next update
  std::shared_ptr<comm::Communicator> communicator_;  // of all ranks, in the present generation
};

}  // namespace muster::parallel
