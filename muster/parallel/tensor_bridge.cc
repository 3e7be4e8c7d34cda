#include "muster/parallel/tensor_bridge.h"

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

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

at::Tensor tensor_over_sum(std::span<float> sum, at::IntArrayRef sizes) {
  return tensor_over({DType::kF32, Shape(sizes.begin(), sizes.end()), std::as_writable_bytes(sum)});
}

}  // namespace muster::parallel
