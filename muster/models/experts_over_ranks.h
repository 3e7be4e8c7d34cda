#pragma once
// A layer's experts where each lies on one of several ranks (expert_group.h): rows travel to the
// rank that holds their expert, and the answers back; in backward gradients go the same ways. What
// different ranks send to one expert is computed apart, so each rank's rows meet the same
// operations as if all experts were its own, with the same bits.

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "muster/models/expert_group.h"

namespace muster::models {

// The experts that this rank holds: as many on each, in order of ranks.
struct ExpertsHere {
  Share experts;
  // [rows, width] to the same. Called in forward only.
  std::function<torch::Tensor(std::int64_t expert, const torch::Tensor& rows)> compute;
  // Those of its parameters that are trained.
  std::function<std::vector<torch::Tensor>(std::int64_t expert)> trained;
};

// `rows` [rows, width], expert after expert, `counts` by expert. Collective: in every pass of every
// rank, also without rows. Where a graph is made, gradients of parameters go to the group
// (ExpertGroup::found) and not to the parameters.
torch::Tensor compute_over_ranks(const torch::Tensor& rows, std::span<const std::int64_t> counts,
                                 const ExpertsHere& here, const ExpertGroup& group);

}  // namespace muster::models
