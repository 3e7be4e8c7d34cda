#pragma once
// A mixture of experts (Shazeer et al. 2017): of several feed-forward layers each token goes
// through the few that a router chooses. Capacity-free (as MegaBlocks, Gale et al. 2023: every
// token is computed, in one matrix product per expert over the tokens sorted by expert) or with a
// capacity (GShard; Switch, Fedus et al. 2022): an expert's tokens beyond it are dropped, so that
// only the residual connection carries them on. Capacity binds in training alone: what a model
// answers does not depend on what else is in the batch.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/models/block.h"
#include "muster/models/experts_over_ranks.h"
#include "muster/models/feed_forward.h"
#include "muster/models/routing.h"

namespace muster::models {

struct ExpertsOptions {
  FeedForwardOptions feed_forward = {};  // of each expert
  std::int64_t experts = 1;
  std::int64_t per_token = 1;                  // experts that a token goes through
  std::optional<double> capacity_factor = {};  // of the rows of an expert if all had as many
  double balance_loss = 0;                     // what the auxiliary losses are multiplied by
  double z_loss = 0;
};

// [n, positions, width] to the same. Parameters "router.weight" [experts, width] and, of each
// expert, "experts.<e>.…", whole on the workers that hold it (TensorPartition::expert): with
// PassContext::experts one rank of several.
//
// A token's output is the sum over its experts, weighted by the router's probabilities: that of the
// one expert (Switch), or those of several divided by their sum (GShard). The router computes in
// f32 at least, whatever the precision around it.
//
// Auxiliary losses of a pass, means over its tokens (auxiliary_loss.h):
// - balance: experts · Σ share of the choices · mean probability (Switch, eq. 4): 1 when even;
// - z: mean of logsumexp(logits)² (Zoph et al. 2022), which keeps logits small.
//
// Statistics, in this order: "router.load" [experts], the shares of the choices; "router.dropped"
// [1], the share of choices beyond capacity; "router.balance_loss" [1] and "router.z_loss" [1].
class Experts {
 public:
  Experts(Block& owner, const ExpertsOptions& options);
  torch::Tensor operator()(const torch::Tensor& input, PassContext& context) const;

  // Of the statistics above, merged: moe/load_imbalance, the busiest expert's load as a multiple of
  // an even one; moe/dropped_fraction, moe/balance_loss, moe/z_loss.
  static std::vector<BlockMetric> tell(std::span<const torch::Tensor> merged);

 private:
  torch::Tensor logits(const torch::Tensor& tokens) const;
  Routing routing_of(const torch::Tensor& logits, bool training) const;
  torch::Tensor gates(const torch::Tensor& probabilities, const Routing& routing) const;
  torch::Tensor compute(const torch::Tensor& rows, const Routing& routing,
                        const PassContext& context) const;
  ExpertsHere experts_of(TensorShare share, const PassContext& context) const;
  torch::Tensor with_losses(const torch::Tensor& output, const torch::Tensor& logits,
                            const torch::Tensor& probabilities, const Routing& routing,
                            PassContext& context) const;
  torch::Tensor without_losses(const torch::Tensor& output, PassContext& context) const;

  ExpertsOptions options_;
  const Block& owner_;
  torch::Tensor router_;  // [experts, width]
  std::vector<FeedForward> experts_;
  torch::Tensor load_;  // the running one; statistics of a pass have its dtype
};

}  // namespace muster::models
