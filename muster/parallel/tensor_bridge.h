#pragma once
// The one place where muster's TensorView and libtorch's Tensor meet.

#include <ATen/core/Tensor.h>

#include "muster/base/tensor_view.h"

namespace muster::parallel {

// A tensor over the view's bytes; no copy, and no ownership: the bytes must outlive it.
at::Tensor tensor_over(const TensorView& view);

// A view over the bytes of a contiguous tensor (channels-last tensors are dense as well, but their
// bytes are in another order: call .contiguous() first). Lives as long as the tensor's storage.
TensorView view_over(const at::Tensor& tensor);

at::ScalarType scalar_type(DType dtype);
DType dtype_of(at::ScalarType type);

}  // namespace muster::parallel
