#include "muster/parallel/tensor_bridge.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <algorithm>

#include "muster/base/check.h"

namespace muster::parallel {
namespace {

struct Pair {
  DType ours;
  at::ScalarType theirs;
};
constexpr Pair kTypes[] = {{DType::kF16, at::kHalf},  {DType::kBF16, at::kBFloat16},
                           {DType::kF32, at::kFloat}, {DType::kF64, at::kDouble},
                           {DType::kI32, at::kInt},   {DType::kI64, at::kLong},
                           {DType::kU8, at::kByte}};

std::span<std::byte> memory_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Device our_device(const at::Tensor& tensor) {
  return tensor.is_cuda() ? Device::kCuda : Device::kCpu;
}

}  // namespace

at::ScalarType scalar_type(DType dtype) {
  for (const Pair& pair : kTypes) {
    if (pair.ours == dtype) return pair.theirs;
  }
  throw LogicFault("unknown dtype");
}

DType dtype_of(at::ScalarType type) {
  for (const Pair& pair : kTypes) {
    if (pair.theirs == type) return pair.ours;
  }
  throw LogicFault(fmt::format("muster has no dtype for libtorch's {}", at::toString(type)));
}

at::Tensor tensor_over(const TensorView& view) {
  const auto device = view.device == Device::kCpu ? at::kCPU : at::kCUDA;
  return at::from_blob(view.bytes.data(), view.shape,
                       at::TensorOptions().dtype(scalar_type(view.dtype)).device(device));
}

TensorView view_over(const at::Tensor& tensor) {
  MUSTER_CHECK(tensor.is_contiguous(), "a view is over contiguous memory");
  return {dtype_of(tensor.scalar_type()), Shape(tensor.sizes().begin(), tensor.sizes().end()),
          memory_of(tensor), our_device(tensor)};
}

TensorView flat_view_over(const at::Tensor& tensor) {
  TensorView view = view_over(tensor);
  view.shape = {tensor.numel()};
  return view;
}

TensorView bytes_over(const at::Tensor& tensor) {
  MUSTER_CHECK(tensor.is_non_overlapping_and_dense(), "the bytes of a dense tensor");
  return {DType::kU8,
          {static_cast<std::int64_t>(tensor.nbytes())},
          memory_of(tensor),
          our_device(tensor)};
}

std::span<const float> floats_of(const at::Tensor& tensor) {
  MUSTER_CHECK(tensor.is_cpu(), "elements on the host, one by one");
  return {tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

at::Tensor on_host(const at::Tensor& tensor) { return tensor.detach().contiguous().cpu(); }

at::Tensor room_on_host(at::IntArrayRef sizes, const at::Tensor& like) {
  return at::empty(sizes, like.options().device(at::kCPU));
}

void copy_over(const at::Tensor& from, const at::Tensor& to) {
  if (from.is_same(to)) return;
  if (from.is_cpu() && to.is_cpu())
    std::ranges::copy(view_over(from).bytes, view_over(to).bytes.begin());
  else
    to.detach().copy_(from.detach());
}

void copy_over(std::span<const float> from, const at::Tensor& to) {
  if (to.is_cpu())
    std::ranges::copy(std::as_bytes(from), view_over(to).bytes.begin());
  else
    to.detach().copy_(tensor_over_sum({const_cast<float*>(from.data()), from.size()}, to.sizes()));
}

void copy_over(const at::Tensor& from, std::span<float> to) {
  if (from.is_cpu())
    std::ranges::copy(floats_of(from), to.begin());
  else
    tensor_over_sum(to, from.sizes()).copy_(from.detach());
}

void swap_over(const at::Tensor& a, const at::Tensor& b) {
  if (a.is_cpu()) {
    std::ranges::swap_ranges(view_over(a).bytes, view_over(b).bytes);
    return;
  }
  const at::Tensor kept = a.detach().clone();
  a.detach().copy_(b.detach());
  b.detach().copy_(kept);
}

at::Tensor tensor_over_sum(std::span<float> sum, at::IntArrayRef sizes) {
  return tensor_over({DType::kF32, Shape(sizes.begin(), sizes.end()), std::as_writable_bytes(sum)});
}

}  // namespace muster::parallel
