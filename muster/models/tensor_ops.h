#pragma once
// What layers do where their tensors are cut over ranks (Megatron-LM: Shoeybi et al. 2019, §3):
// each has its part of the operation in backward as well. Group null, or of one rank: the plain
// operation, with its bits. Thread rule: that of the pass.

#include <torch/types.h>

#include <cstdint>

#include "muster/models/tensor_group.h"

namespace muster::models {

// The input of a layer that is cut along its outputs, whole and alike on all ranks. Backward sums
// what the ranks' parts find for it. Their "f".
torch::Tensor copy_to_ranks(const torch::Tensor& input, const TensorGroup* group);

// The sum of what ranks compute of one output, each from its part of the inputs. Backward passes
// the gradient on. Their "g". Sums of 16 bits are made in f32 and rounded once.
torch::Tensor sum_over_ranks(const torch::Tensor& partial, const TensorGroup* group);

// Of [n, positions, …] the positions that this rank has where the group cuts sequences, which are a
// multiple of its ranks; else all.
Share positions_of(std::int64_t positions, const TensorGroup* group);

// The input of a layer that is cut along its outputs: copy_to_ranks(), and where the group cuts
// sequences this rank's positions of it, which are gathered; backward sums and keeps its own.
torch::Tensor enter_cut(const torch::Tensor& input, const TensorGroup* group);
// The output of one that is cut along its inputs: sum_over_ranks(), of this rank's positions where
// the group cuts sequences; backward gathers.
torch::Tensor leave_cut(const torch::Tensor& partial, const TensorGroup* group);

// torch::embedding where `weight` has this rank's share of `vocabulary` entries: as leave_cut(),
// and exact, as all addends but one are zero. A token that is no entry throws, as it does there.
torch::Tensor embed_over_ranks(const torch::Tensor& weight, const torch::Tensor& tokens,
                               std::int64_t vocabulary, const TensorGroup* group);

// Of each row of `logits` [n, classes here], this rank's share of `classes`, against targets [n],
// which are any of them: the sum over rows of the cross entropy, and how many targets have the
// largest logit (of equal ones the first counts). Only numbers by row travel between ranks: the
// logits stay where they are. `label_smoothing` as cross_entropy_sum() has it.
struct CrossEntropy {
  torch::Tensor sum;      // scalar with a graph
  torch::Tensor correct;  // scalar i64
};
CrossEntropy cross_entropy_over_ranks(const torch::Tensor& logits, const torch::Tensor& target,
                                      std::int64_t classes, double label_smoothing,
                                      const TensorGroup& group);

}  // namespace muster::models
