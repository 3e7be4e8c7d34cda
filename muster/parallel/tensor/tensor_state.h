#pragma once
// A rank's part of a cut tensor as slices of the whole, for checkpoints. Pure.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "muster/base/tensor_slice.h"
#include "muster/models/partition.h"

namespace muster::parallel {

// Adds one slice for each run of the cut; of a tensor that is not cut the whole. The views are over
// `tensor`, which is contiguous.
void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut);

}  // namespace muster::parallel
