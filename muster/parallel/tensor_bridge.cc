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
  return {dtype_of(tensor.scalar_type()),
          Shape(tensor.sizes().begin(), tensor.sizes().end()),
          {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()},
          tensor.is_cuda() ? Device::kCuda : Device::kCpu};
}

}  // namespace muster::parallel
