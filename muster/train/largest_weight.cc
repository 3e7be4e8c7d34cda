#include "muster/train/largest_weight.h"

#include <ATen/ATen.h>

#include <cmath>

#include "muster/parallel/tensor_bridge.h"

namespace muster::train {

std::optional<LargestWeight> largest_weight(std::span<const TensorSlice> tensors) {
  std::optional<LargestWeight> largest;
  for (const TensorSlice& slice : tensors) {
    const at::Tensor values = parallel::tensor_over(slice.tensor);
    if (!values.is_floating_point() || values.numel() == 0) continue;
    const double magnitude = values.abs().max().item<double>();
    if (std::isnan(magnitude)) return LargestWeight{slice.name, magnitude};
    if (!largest || magnitude > largest->magnitude) largest = {slice.name, magnitude};
  }
  return largest;
}

}  // namespace muster::train
