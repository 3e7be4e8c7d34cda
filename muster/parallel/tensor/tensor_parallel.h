#pragma once
// Tensor parallelism (Megatron-LM: Shoeybi et al. 2019): every rank of a group holds a part of each
// tensor that the model's partition spec cuts, and all of them compute each slice together, with
// two sums over the group in each direction of a transformer layer. What is cut: attention between
// heads, the MLP first along its outputs and then along its inputs, embedding and output layer
// along the vocabulary, over which the cross entropy is taken in parts (models/tensor_ops.h).
//
// Of the mesh the axis `tensor` is along these ranks; along `replicate` and `shard` there are
// replicas. Slices go to replicas, and gradients are summed over these by the fixed tree; along
// `shard` each keeps a share of the optimizer's state of its part (peer_update.h). Random numbers
// are those of the unsplit model.
// With Cut::sequence norms and dropout between cut layers are computed by position, each rank its
// own: sums become reduce-scatters and all-gathers.
//
// So the result is that of plain data parallelism but for rounding, where a sum over inner
// dimensions is made in parts; it does not depend on the number of replicas. A rank that dies takes
// its parts with it, so another one takes its place. One thread.

#include <cstdint>
#include <memory>
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
#include "muster/parallel/tensor/tensor_ranks.h"

namespace muster::parallel {

class TensorParallel final : public SliceStrategy {
 public:
  struct Cut {
    bool sequence = false;  // activations between cut layers as well, by position (Korthikanti et
                            // al. 2022); sequences of a multiple of the ranks
  };
  // `model`: not initialised;
  // this rank keeps its part of it and initialises that from options.seed. One lane, ordered mode,
  // not elastic. kUnsupported: such a model cannot be cut so.
  static Result<std::unique_ptr<TensorParallel>> create(
      std::unique_ptr<models::Model> model, Cut cut, const optim::CreateOptimizer& create_optimizer,
      SliceOptions options, const MeshPlace& place, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }
  std::int32_t ranks_per_replica() const override { return parts(); }
  Rank first_of_replica(Rank rank) const override;
  std::int32_t part_of(Rank rank) const override {
    return place_.part_of(rank, {layout::Axis::kReplicate});
  }

  // Nobody joins beside the training.
  void fall_behind() override;
  bool behind() const noexcept override { return false; }
  Status catch_up() override { return ok(); }
  Status warm_up(const data::StepBatch& batch) override;
  Status use_average(bool average) override;

  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;

  std::vector<StateSlice> model_state() override;
  std::vector<StateSlice> optimizer_state() override;
  Result<State> gather_state(Rank to) override;
  std::vector<StateSlice> replicated_state() override { return {}; }
  bool holds_all() const override { return parts() * update_->optimizer().shards() == 1; }
  void set_optimizer_steps(std::int64_t steps) override { update_->optimizer().set_steps(steps); }
  std::int64_t parameter_count() const override { return parameter_count_; }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;

 private:
  TensorParallel(std::unique_ptr<models::Model> model, std::shared_ptr<TensorRanks> ranks,
                 MeshPlace place, SliceOptions options, Clock& clock);
  std::int32_t parts() const noexcept { return ranks_->share().size; }
  Status build(const optim::CreateOptimizer& create, std::int64_t parameter_count);
  Status compute(const StepInput& input, StepReport& report);
  Status sum_what_is_whole();
  Status sum_over_all(const at::Tensor& flat);
  Result<std::vector<double>> agree(StepReport& report);
  Status update(double learning_rate, double divisor);
  std::vector<StateSlice> own_part(std::vector<StateSlice> state) const;

  const MeshPlace place_;
  const std::shared_ptr<TensorRanks> ranks_;
  std::int64_t parameter_count_ = 0;  // of the whole model
  std::unique_ptr<PeerUpdate> update_;

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;   // of all ranks
  GatheredState gathered_model_, gathered_optimizer_;  // until the next update
};

}  // namespace muster::parallel
