#pragma once
// The elements of a dense tensor on the host as a span, for loops that do in one pass over the
// memory what would be many operations of libtorch. Plain loops round each operation by itself, so
// a part of a tensor has the bits of the whole.

#include <torch/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/check.h"
#include "muster/optim/cells.h"

namespace muster::optim {

// Tensors for such loops: those that lie on the host themselves, of others copies.
class HostTensors {
 public:
  explicit HostTensors(std::vector<torch::Tensor> tensors) : tensors_(std::move(tensors)) {
    for (const torch::Tensor& tensor : tensors_) host_.push_back(tensor.cpu());
  }
  const torch::Tensor& operator[](std::size_t index) const { return host_[index]; }
  // What a loop has made of copies becomes the tensors'.
  void write_back() {
    for (std::size_t i = 0; i < host_.size(); ++i)
      if (!tensors_[i].is_cpu()) tensors_[i].copy_(host_[i]);
  }

 private:
  const std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> host_;
};

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
