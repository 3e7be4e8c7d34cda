#include "muster/base/tensor_slice.h"

#include "muster/base/check.h"

namespace muster {

std::vector<TensorSlice> whole_slices(const std::vector<NamedTensor>& tensors) {
  std::vector<TensorSlice> slices;
  slices.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors)
    slices.push_back({name, tensor, tensor.shape, Shape(tensor.shape.size())});
  return slices;
}

ByteRuns runs_of(const TensorSlice& slice) {
  const Shape& part = slice.tensor.shape;
  const Shape& whole = slice.global_shape;
  MUSTER_CHECK(part.size() == whole.size() && slice.offset.size() == whole.size(),
               slice.name + ": a slice has as many axes as the whole");
  std::size_t axis = 0;  // the one that is cut, else the first
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (part[i] == whole[i]) continue;
    MUSTER_CHECK(slice.offset[i] >= 0 && slice.offset[i] + part[i] <= whole[i],
                 slice.name + ": a slice lies inside the whole");
    MUSTER_CHECK(axis == 0 || axis == i, slice.name + ": a slice is cut along one axis");
    axis = i;
  }
  const std::uint64_t bytes = slice.tensor.bytes.size();
  if (bytes == 0) return {};
  std::uint64_t outer = 1, inner = size_of(slice.tensor.dtype);
  for (std::size_t i = 0; i < axis; ++i) outer *= static_cast<std::uint64_t>(whole[i]);
  for (std::size_t i = axis + 1; i < whole.size(); ++i)
    inner *= static_cast<std::uint64_t>(whole[i]);
  if (whole.empty()) return {.first = 0, .length = bytes, .pitch = bytes, .runs = 1};
  return {.first = inner * static_cast<std::uint64_t>(slice.offset[axis]),
          .length = bytes / outer,
          .pitch = inner * static_cast<std::uint64_t>(whole[axis]),
          .runs = outer};
}

}  // namespace muster
