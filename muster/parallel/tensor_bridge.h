#pragma once
// The one place where muster's TensorView, or a span of its numbers, and libtorch's Tensor meet.

#include <ATen/core/Tensor.h>

#include <span>

#include "muster/base/tensor_view.h"

namespace muster::parallel {

// A tensor over the view's bytes; no copy, and no ownership: the bytes must outlive it.
at::Tensor tensor_over(const TensorView& view);

// A view over the bytes of a contiguous tensor (channels-last tensors are dense as well, but their
// bytes are in another order: call .contiguous() first). Lives as long as the tensor's storage.
TensorView view_over(const at::Tensor& tensor);
// The same bytes in one dimension.
TensorView flat_view_over(const at::Tensor& tensor);

// The memory of a dense tensor, in whatever order its strides have the elements, as bytes.
TensorView bytes_over(const at::Tensor& tensor);

// The elements of a contiguous tensor of f32 for loops on the host; LogicFault where it lies
// anywhere else. As long as the tensor's storage.
std::span<const float> floats_of(const at::Tensor& tensor);

// For engines: the elements in their order on the host, without history. Of a tensor that lies so
// its own memory.
at::Tensor on_host(const at::Tensor& tensor);
// Memory on the host for elements of `like`'s type.
at::Tensor room_on_host(at::IntArrayRef sizes, const at::Tensor& like);

// The elements of one become the other's, wherever the tensors lie; contiguous, of one type and as
// many. Nothing happens where both are one tensor.
void copy_over(const at::Tensor& from, const at::Tensor& to);
void copy_over(std::span<const float> from, const at::Tensor& to);
void copy_over(const at::Tensor& from, std::span<float> to);
void swap_over(const at::Tensor& a, const at::Tensor& b);  // of one device

// A tensor of these sizes over a sum; the sum must outlive it.
at::Tensor tensor_over_sum(std::span<float> sum, at::IntArrayRef sizes);

at::ScalarType scalar_type(DType dtype);
DType dtype_of(at::ScalarType type);

}  // namespace muster::parallel
