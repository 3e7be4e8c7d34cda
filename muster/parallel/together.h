#pragma once
// The ranks that compute each slice together, as one of them sees it. Along the mesh's axis
// `tensor` they hold a part of each tensor that the model's partition spec cuts (Megatron-LM:
// Shoeybi et al. 2019): attention between heads, the MLP first along its outputs and then along its
// inputs, two convolutions of a block in the same way, embedding and output layer along the
// vocabulary (models/tensor_ops.h). Along `context` they have some positions of every sequence, and
// attention meets the others (DeepSpeed-Ulysses: Jacobs et al. 2023; ring attention: Liu et al.
// 2023; models/context_attention.h). Random numbers are those of the whole model and of whole
// sequences.
//
// Of each slice a rank finds the gradients of its positions, so the fixed tree has a leaf for each
// sharer of a slice: one rank's slices next to each other, then the next one's. One thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/model.h"
#include "muster/parallel/context/context_ranks.h"
#include "muster/parallel/mesh_place.h"
#include "muster/parallel/peer_update.h"
#include "muster/parallel/strategy.h"
#include "muster/parallel/tensor/tensor_ranks.h"

namespace muster::parallel {

struct TogetherOptions {
  bool cuts_sequence = false;  // with parts: activations between cut layers as well, by position
                               // (Korthikanti et al. 2022); sequences of a multiple of the parts
  models::ContextAttention attention = models::ContextAttention::kRing;
  comm::OpOptions op = {};
};

class Together {
 public:
  Together(MeshPlace place, const TogetherOptions& options);

  models::TensorShare parts() const noexcept { return tensors_->share(); }
  models::TensorShare sharers() const noexcept { return sequences_->share(); }

  // The model, which is not initialised, keeps this rank's part and computes with the others from
  // here on. kUnsupported says why such a model cannot be cut, or its sequences shared.
  Status cut(models::Model& model) const;
  // Trust ratios of this optimizer, which this outlives, are those of whole tensors from here on.
  void complete_norms(ShardedOptimizer& optimizer) const;
  // In each generation: `communicator` of all ranks of the mesh. Collective.
  Status connect(comm::Communicator& communicator) const;
  // Along which of the mesh's axes ranks hold the same parameters.
  static std::vector<layout::Axis> axes_of_peers();
  // Who finds the gradients of each leaf, where owners[i] is the first rank that computes slice i.
  comm::LeafOwners leaves(const comm::LeafOwners& owners) const;

  // What layers have sent to other ranks since the last call.
  std::uint64_t take_bytes() const;
  // What is behind `error`, of which libtorch passes on no more than the text.
  Error cause_of(Error error) const;

  // Of some tensors that are not cut each rank has addends of the gradients only, as of all of them
  // with cuts_sequence, those of its positions: makes the sums. After PeerUpdate::gather_sums().
  Status sum_addends(PeerUpdate& update) const;
  // numbers[r] are those of the rank that has part r. Collective.
  Result<std::vector<std::vector<double>>> gather(std::vector<double> own) const;
  // From the squared norms of what this rank has of these gradients, by parameter, those of whole
  // tensors; and what else a step decides by. The first rank speaks for all of them in what should
  // be alike, so that they decide alike whatever happens. Collective.
  Result<std::vector<double>> agree(const std::vector<models::Parameter>& parameters,
                                    std::vector<double> squares, StepReport& report) const;
  // By parameter, what is a sum over its elements: by_part[r][first + p] over what the rank that
  // has part r has of parameters[p]. Of one that is cut the sum over all parts, in their order;
  // else the first rank's, which speaks for all. Pure.
  static std::vector<double> whole_sums(const std::vector<models::Parameter>& parameters,
                                        const std::vector<std::vector<double>>& by_part,
                                        std::size_t first = 0);
  // Of a state what this rank gives to a checkpoint: what is alike on all parts is the first one's.
  std::vector<StateSlice> own_part(std::vector<StateSlice> state, const models::Model& model) const;
  // Sums over slices that each sharer has a part of, as those of its leaves; zeros from ranks that
  // are not the first to hold their part.
  std::vector<EvaluationTotals> by_leaf(std::span<const EvaluationTotals> by_slice) const;

 private:
  Status sum_over_all(const at::Tensor& flat, const PeerUpdate& update) const;

  const MeshPlace place_;
  const comm::OpOptions op_;
  const std::shared_ptr<TensorRanks> tensors_;
  const std::shared_ptr<ContextRanks> sequences_;
};

}  // namespace muster::parallel
