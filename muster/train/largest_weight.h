#pragma once
// Where a training that has run away has run to, for its message. Pure; any thread, while nobody
// writes the tensors.

#include <optional>
#include <span>
#include <string>

#include "muster/base/tensor_slice.h"

namespace muster::train {

struct LargestWeight {
  std::string name;
  double magnitude = 0;  // NaN where the tensor holds one
};

// The tensor with the number largest in magnitude, of those with floating point; a NaN is larger
// than anything. None: there is no number among them.
std::optional<LargestWeight> largest_weight(std::span<const TensorSlice> tensors);

}  // namespace muster::train
