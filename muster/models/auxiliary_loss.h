#pragma once
// A loss that a block has of its own, beside that of the model's output: how unevenly a router
// deals tokens out, for example.

#include <torch/types.h>

namespace muster::models {

// `output` as it is. In backward `loss`, a scalar, gets the gradient `weight`, as if weight · loss
// had been added to what is minimised: whoever runs forward and backward, block by block, again to
// recompute, or on several workers, need not know of it (Megatron-LM's MoEAuxLossAutoScaler).
// `weight` 0: `output` itself.
torch::Tensor attach_loss(const torch::Tensor& output, const torch::Tensor& loss, double weight);

}  // namespace muster::models
