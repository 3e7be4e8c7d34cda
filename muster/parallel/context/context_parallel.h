#pragma once
// Context parallelism: the ranks of a group have some positions of every sequence each, and compute
// all slices together. Everything but attention is computed position by position; attention meets
// the other positions by exchanging heads for them (DeepSpeed-Ulysses: Jacobs et al. 2023) or by
// passing keys and values around (ring attention: Liu et al. 2023; models/context_attention.h). So
// activations, not weights, are shared out: for sequences that one rank cannot hold.
//
// The ranks are replicas · ranks, those of a replica next to each other. Slices go to replicas. Of
// each slice a rank finds the gradients of its positions: the fixed tree has a leaf for each of
// these, one rank's slices next to each other, so that one reduction sums over positions and
// slices, and all ranks update alike. Random numbers are those of the whole sequences.
//
// So the result is that of plain data parallelism but for rounding; it does not depend on the
// number of replicas. The membership is fixed. One thread.

#include <cstdint>
#include <memory>
#include <span>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/layout/mesh.h"
#include "muster/models/model.h"
#include "muster/optim/optimizer.h"
#include "muster/parallel/context/context_ranks.h"
#include "muster/parallel/data_parallel.h"

namespace muster::parallel {

class ContextParallel final : public DataParallel {
 public:
  struct Cut {
    std::int32_t ranks = 1;  // that share each sequence; a divisor of the group's size
    models::ContextAttention attention = models::ContextAttention::kRing;
  };
  // `model`: initialised alike on every rank, as `optimizer` of its parameters. One lane, ordered
  // mode, not elastic. kUnsupported: ranks cannot share the sequences of such a model.
  static Result<std::unique_ptr<ContextParallel>> create(
      std::unique_ptr<models::Model> model, std::unique_ptr<optim::Optimizer> optimizer, Cut cut,
      SliceOptions options, const comm::Group& group, Clock& clock);

  Result<StepReport> step(const StepInput& input) override;
  // Another rank or number of ranks than at create(): kUnavailable. owners[i] is the first rank of
  // the replica that computes slice i.
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override;
  std::int32_t ranks_per_replica() const override { return mesh_.extent(layout::Axis::kContext); }

  Status evaluate(const data::StepBatch& batch, std::span<EvaluationTotals> by_slice) override;
  Result<EvaluationTotals> combine(std::span<const EvaluationTotals> by_slice) override;

  // Nobody joins beside the training.
  void fall_behind() override;
  Status warm_up(const data::StepBatch& batch) override;

 private:
  struct Places {
    layout::Mesh mesh;
    comm::Group group;
  };
  ContextParallel(std::unique_ptr<models::Model> model, std::unique_ptr<optim::Optimizer> optimizer,
                  std::shared_ptr<ContextRanks> ranks, Places places, SliceOptions options,
                  Clock& clock);
  Rank neighbour(Rank rank, std::int32_t along_context) const;

  const layout::Mesh mesh_;
  const comm::Group group_;
  const std::shared_ptr<ContextRanks> ranks_;
  std::shared_ptr<comm::Communicator> communicator_;  // of all ranks, in the present generation
};

}  // namespace muster::parallel
