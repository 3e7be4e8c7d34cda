#pragma once
// The elements of a dense tensor on the host as a span, for loops that do in one pass over the
// memory what would be many operations of libtorch. Plain loops round each operation by itself, so
// a part of a tensor has the bits of the whole.

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "muster/base/check.h"
#include "muster/optim/cells.h"

namespace muster::optim {

// Calls `body` with a value of the tensor's element type, float or double.
template <class Body>
void with_elements(const torch::Tensor& tensor, Body body) {
  MUSTER_CHECK(tensor.is_cpu() && tensor.is_contiguous(), "elements on the host, one by one");
  if (tensor.scalar_type() == torch::kFloat64) return body(double{});
  MUSTER_CHECK(tensor.scalar_type() == torch::kFloat32,
               std::string("no loops for elements of ") + c10::toString(tensor.scalar_type()));
  body(float{});
}

inline Cells cells_of(const torch::Tensor& tensor) {
  return cells_of(std::span(tensor.sizes().data(), tensor.sizes().size()));
}

template <class T>
std::span<T> elements_of(const torch::Tensor& tensor) {
  using Element = std::remove_const_t<T>;
  const auto count = static_cast<std::size_t>(tensor.numel());
  if constexpr (std::is_const_v<T>)
    return {tensor.const_data_ptr<Element>(), count};
  else
    return {tensor.data_ptr<Element>(), count};
}

}  // namespace muster::optim
