#pragma once
// Expert parallelism: every rank of a group holds some of the experts of a mixture, whole, and all
// of the rest, and computes slices of its own (dealt_experts.h).
//
// Of the mesh the axis `expert` is along these ranks; along `replicate` and `shard` there are
// replicas. Gradients of what all hold are summed over all ranks; those of an expert over the
// slices of each replica by its holder and then over the replicas, along the same fixed tree. So
// the result is that of plain data parallelism, bit by bit, at any number of ranks and replicas;
// along `shard` each keeps a share of the optimizer's state of what it holds (peer_update.h).
//
// Along `tensor` ranks compute the same slices, each its part of all tensors, of every expert as
// well (together.h): all route alike, and tokens travel among ranks that have the same part. The
// result is that of as many parts with all experts on each, bit by bit.
//
// A rank that dies takes its experts with it, so another one takes its place. One thread.

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
#include "muster/parallel/expert/dealt_experts.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/slice_strategy.h"
#include "muster/parallel/together.h"

namespace muster::parallel {

class ExpertParallel final : public SliceStrategy {
 public:
  // `model`: not initialised; this rank keeps its share of the experts, and initialises what it
  // holds from options.seed. One lane, ordered mode, not elastic. kUnsupported: the experts of such
  // a model cannot be dealt so, its tensors not be cut, or not all ranks have as many passes
  // (virtual workers that are no multiple of the ranks with slices of their own, micro-batches).
  static Result<std::unique_ptr<ExpertParallel>> create(
      std::unique_ptr<models::Model> model, const optim::CreateOptimizer& create_optimizer,
      SliceOptions options, const MeshPlace& place, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable. `owners`: of every rank as many
  // slices.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }
  std::int32_t ranks_per_replica() const override { return together_->parts().size; }
  Rank first_of_replica(Rank rank) const override {
    return place_.first_of(rank, {layout::Axis::kTensor});
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
  std::vector<StateSlice> optimizer_state() override;
  Result<State> gather_state(Rank to) override;
  std::vector<StateSlice> replicated_state() override;
  bool holds_all() const override {
    return holds_all_experts() && holds_all_tensors() && shards() == 1;
  }
  std::int32_t part_of(Rank rank) const override {
    return place_.part_of(rank, {layout::Axis::kReplicate});
  }
  void loaded(std::int64_t steps) override;
  std::int64_t parameter_count() const override { return whole_.parameter_count; }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;

 private:
  // What is known of the whole model, in its order.
  struct Whole {
    std::vector<std::string> trained;           // names of parameters
    std::vector<models::Parameter> parameters;  // of these; without memory where others hold them
    std::vector<std::int32_t> holders;          // likewise: the rank of the group; -1: all of them
    std::vector<std::string> owners;            // of the state: parameters, frozen, statistics
    std::int64_t parameter_count = 0;
  };
  static Whole note(const models::Model& model, std::int32_t ranks);
  struct Groups {  // that this rank computes with
    std::unique_ptr<DealtExperts> experts;
    std::unique_ptr<const Together> together;
  };
  ExpertParallel(std::unique_ptr<models::Model> model, Groups groups, Whole whole, MeshPlace place,
                 SliceOptions options, Clock& clock);
  Status build(const optim::CreateOptimizer& create);
  bool holds_all_experts() const noexcept { return !experts_->are_dealt(); }
  bool holds_all_tensors() const noexcept { return together_->parts().size == 1; }
  std::int32_t shards() const { return of_all_->optimizer().shards(); }
  std::vector<PeerUpdate*> updates() const;
  Status connect(const std::shared_ptr<comm::Communicator>& communicator);
  Status compute(const StepInput& input, StepReport& report);
  Result<std::vector<double>> squared_norms();
  Status update(double learning_rate, double divisor);
  Error cause_of(Error error) const;

  const MeshPlace place_;
  const std::unique_ptr<DealtExperts> experts_;
  const std::unique_ptr<const Together> together_;
  const Whole whole_;
  std::unique_ptr<PeerUpdate> of_all_;  // of what all ranks hold

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;   // of all ranks
  Peers all_peers_;                                    // who hold what all hold
  GatheredState gathered_model_, gathered_optimizer_;  // until the next update
};

}  // namespace muster::parallel
