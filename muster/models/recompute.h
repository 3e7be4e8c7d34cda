#pragma once
// Activation recomputation, or gradient checkpointing (Chen et al., "Training Deep Nets with
// Sublinear Memory Cost", 2016): of a block's forward pass only the input is kept; backward runs
// the block again, with the same random numbers and in the same precision, and so gets the same
// bits.
//
// The first run has a graph as well, and drops it: libtorch may choose other kernels where none is
// wanted, and their last bits would differ. So a block's activations are there for a moment in
// forward, as they are again in backward.

#include <torch/types.h>

#include <memory>

#include "muster/models/block.h"

namespace muster::models {

// The block's output, in the precision of the pass.
torch::Tensor run_block(Block& block, torch::Tensor input, PassContext& context);

// The same, bit for bit, and the same gradients; what the block would keep for backward is computed
// again then. Until then it keeps its parameters' values, and it does not change its input in
// place.
torch::Tensor run_recomputed(const std::shared_ptr<Block>& block, const torch::Tensor& input,
                             PassContext& context);

}  // namespace muster::models
