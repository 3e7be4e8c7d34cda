#pragma once
// What a rank has of a tensor as slices of the whole, for checkpoints: of one that is cut its part
// (models/partition.h), and where ranks share that out (shard_plan.h) some rows of it. Pure.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/tensor_slice.h"
#include "muster/models/partition.h"

namespace muster::parallel {

// Rows of a rank's part of a tensor: those from `begin` on, of `all` in the part.
struct PartRows {
  std::int64_t begin = 0;
  std::int64_t all = 0;
};

// Adds one slice for each run of the cut that rows of `tensor` lie in; of a tensor that is not cut
// one. The views are over `tensor`, which is contiguous.
void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut, PartRows rows);
void add_slices(std::vector<TensorSlice>& state, const std::string& name, const at::Tensor& tensor,
                const models::TensorCut& cut);  // with all rows

}  // namespace muster::parallel
