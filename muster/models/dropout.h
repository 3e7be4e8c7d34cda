#pragma once
// Dropout whose mask is a pure function of (stream, element index): the same whoever runs the
// slice, before or after whatever else. Srivastava et al. 2014, scaled while training ("inverted").

#include <torch/types.h>

#include "muster/base/random.h"
#include "muster/models/partition.h"

namespace muster::models {

// input · mask / (1 - probability); returns `input` itself for probability 0. `probability` in [0,
// 1). Elements are counted in row-major order of the logical shape, whatever the memory format.
torch::Tensor dropout(const torch::Tensor& input, double probability, const RandomStream& stream);
// Of a tensor [n, part, …]: as the whole [n, part.whole, …] would be dropped there.
torch::Tensor dropout(const torch::Tensor& input, const AxisPart& part, double probability,
                      const RandomStream& stream);

// The factors, 0 or 1 / (1 - probability), f32 on the CPU; in memory and time for that part only.
torch::Tensor dropout_mask(torch::IntArrayRef shape, double probability,
                           const RandomStream& stream);
torch::Tensor dropout_mask(torch::IntArrayRef shape, const AxisPart& part, double probability,
                           const RandomStream& stream);

}  // namespace muster::models
