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
  std::size_t axis = 0;  // the one behind the first that is cut, else the first
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (part[i] == whole[i]) continue;
    MUSTER_CHECK(slice.offset[i] >= 0 && slice.offset[i] + part[i] <= whole[i],
                 slice.name + ": a slice lies inside the whole");
    MUSTER_CHECK(axis == 0 || axis == i,
                 slice.name + ": a slice is cut along the first axis and one other");
    axis = i;
  }
  const std::uint64_t bytes = slice.tensor.bytes.size();
  if (bytes == 0) return {};
  if (whole.empty()) return {.first = 0, .length = bytes, .pitch = bytes, .runs = 1};
  const auto product = [](std::uint64_t number, const Shape& shape, std::size_t begin,
                          std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) number *= static_cast<std::uint64_t>(shape[i]);
    return number;
  };
  const std::uint64_t inner = product(size_of(slice.tensor.dtype), whole, axis + 1, whole.size());
  const std::uint64_t pitch = inner * static_cast<std::uint64_t>(whole[axis]);
  const std::uint64_t runs = product(1, part, 0, axis);
  std::uint64_t first = inner * static_cast<std::uint64_t>(slice.offset[axis]);
  if (axis > 0)
    first += product(pitch, whole, 1, axis) * static_cast<std::uint64_t>(slice.offset[0]);
  return {.first = first, .length = bytes / runs, .pitch = pitch, .runs = runs};
}

}  // namespace muster
