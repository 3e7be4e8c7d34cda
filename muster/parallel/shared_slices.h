#pragma once
// Tensor and context parallelism: the ranks of a replica compute each slice together, each its part
// of the model's tensors, its positions of every sequence, or both (together.h).
//
// Of the mesh these are the axes `tensor` and `context`; along `replicate` and `shard` there are
// replicas. Slices go to replicas, and gradients are summed over these and over positions by the
// fixed tree; along `shard` each rank keeps a share of the optimizer's state of what it holds
// (peer_update.h), with SliceOptions::shard_gradients of the gradients as well, and with
// shard_weights of the weights.
//
// So the result is that of plain data parallelism but for rounding, where a sum over inner
// dimensions or over positions is made in parts; it does not depend on the number of replicas. For
// a rank that dies another one takes its place. One thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/slice_strategy.h"
#include "muster/parallel/together.h"

namespace muster::parallel {

class SharedSlices final : public SliceStrategy {
 public:
  // `model`: not initialised; this rank keeps its part of it and initialises that from
  // options.seed. One lane, ordered mode, not elastic. kUnsupported: such a model cannot be cut so,
  // or its sequences not be shared, or there is one shard of gradients that are to be shared out.
  static Result<std::unique_ptr<SharedSlices>> create(
      std::unique_ptr<models::Model> model, const TogetherOptions& together,
      const optim::CreateOptimizer& create_optimizer, SliceOptions options, const MeshPlace& place,
      Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }
  std::int32_t ranks_per_replica() const override;
  Rank first_of_replica(Rank rank) const override;
  std::int32_t part_of(Rank rank) const override {
    return place_.part_of(rank, {layout::Axis::kReplicate, layout::Axis::kContext});
  }

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status warm_up(const data::StepBatch& batch) override;
  Status use_average(bool average) override;

  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override;

  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override { return update_->optimizer().state(); }
  Result<State> gather_state(Rank to) override;
  std::vector<StateSlice> replicated_state() override;
  bool holds_all() const override;
  void loaded(std::int64_t steps) override;
  std::int64_t parameter_count() const override { return parameter_count_; }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;
  std::uint64_t gradient_bytes(std::int32_t ranks) override;
  std::uint64_t weight_bytes(std::int32_t ranks) override;
  std::int32_t ranks_in_turns(std::int32_t replicas) const override;

 private:
  SharedSlices(std::unique_ptr<models::Model> model, std::unique_ptr<const Together> together,
               MeshPlace place, SliceOptions options, Clock& clock);
  Status build(const optim::CreateOptimizer& create, std::int64_t parameter_count);
  bool holds_all_tensors() const noexcept { return together_->parts().size == 1; }
  const SliceOptions& options() const noexcept { return slices().options(); }
  Status share_gradients(Peers peers, const comm::LeafOwners& leaves);
  std::vector<StateSlice> statistics();
  Status compute(const StepInput& input, StepReport& report);
  Status update(double learning_rate, double divisor);
  std::vector<std::string> state_names() const;

  const MeshPlace place_;
  const std::unique_ptr<const Together> together_;
  std::int64_t parameter_count_ = 0;  // of the whole model
  std::unique_ptr<PeerUpdate> update_;

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;   // of all ranks
  GatheredState gathered_model_, gathered_optimizer_;  // until the next update
};

}  // namespace muster::parallel
