#pragma once
// Expert parallelism (GShard: Lepikhin et al. 2021; without padding as MegaBlocks: Gale et al.
// 2023): every rank of a group holds some of the experts of a mixture, whole, and all of the rest.
// Each computes slices of its own; in a layer of experts tokens travel to the ranks of theirs and
// the answers back, exactly as many as are routed there (models/experts_over_ranks.h).
//
// The ranks are replicas · ranks, those of a replica next to each other. Gradients of what all hold
// are summed over all ranks; those of an expert over the slices of each replica by its holder and
// then over the replicas, along the same fixed tree. So the result is that of plain data
// parallelism, bit by bit, at any number of ranks and replicas.
//
// A rank that dies takes its experts with it, so the membership is fixed. One thread.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/layout/mesh.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/expert/expert_ranks.h"
#include "muster/parallel/expert/held_experts.h"
#include "muster/parallel/gather_state.h"
#include "muster/parallel/slice_strategy.h"

namespace muster::parallel {

class ExpertParallel final : public SliceStrategy {
 public:
  // `model`: not initialised; this rank keeps its share of the experts of `ranks` ranks, a divisor
  // of the group's size, and initialises what it holds from options.seed. One lane, ordered mode,
  // not elastic. kUnsupported: the experts of such a model cannot be dealt so, or not all ranks
  // have as many passes (virtual workers that are no multiple of the group's size, micro-batches).
  static Result<std::unique_ptr<ExpertParallel>> create(
      std::unique_ptr<models::Model> model, std::int32_t ranks,
      const optim::CreateOptimizer& create_optimizer, SliceOptions options,
      const comm::Group& group, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable. `owners`: of every rank as many
  // slices.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::optional<Step> kept() const override { return std::nullopt; }

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
  std::vector<StateSlice> replicated_state() override;
  bool holds_all() const override { return ranks_->share().size == 1; }
  void set_optimizer_steps(std::int64_t steps) override { optimizer_->set_steps(steps); }
  std::int64_t parameter_count() const override { return whole_.parameter_count; }
  std::uint64_t optimizer_bytes(std::int32_t ranks) override;

 private:
  // What is known of the whole model, in its order.
  struct Whole {
    std::vector<std::string> trained;   // names of parameters
    std::vector<std::int32_t> holders;  // of these: the rank of the group; -1: all of them
    std::vector<std::string> owners;    // of the state: parameters, frozen ones, statistics
    std::int64_t parameter_count = 0;
  };
  static Whole note(const models::Model& model, std::int32_t ranks);
  struct Places {
    layout::Mesh mesh;
    comm::Group group;
  };
  ExpertParallel(std::unique_ptr<models::Model> model, std::shared_ptr<ExpertRanks> ranks,
                 Whole whole, Places places, SliceOptions options, Clock& clock);
  Status build(const optim::CreateOptimizer& create);
  std::vector<const models::Parameter*> trained_here() const;
  Status compute(const StepInput& input, StepReport& report);
  Result<std::vector<double>> squared_norms();
  Status update(double learning_rate, double divisor);
  std::vector<std::vector<std::int32_t>> slices_of_ranks(const comm::LeafOwners& owners) const;

  const layout::Mesh mesh_;
  const comm::Group group_;
  const std::shared_ptr<ExpertRanks> ranks_;
  const Whole whole_;
  HeldExperts experts_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  bool uses_average_ = false;

  // Of the present generation:
  std::shared_ptr<comm::Communicator> communicator_;   // of all ranks
  std::vector<at::Tensor> gradients_;                  // of trained_here(), over the sums
  GatheredState gathered_model_, gathered_optimizer_;  // until the next update
};

}  // namespace muster::parallel
