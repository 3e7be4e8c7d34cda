#pragma once
// TensorView: a tensor below libtorch. Describes contiguous, row-major elements that somebody else
// owns; whoever hands one out says how long the bytes live. A plain value, as thread-safe as the
// bytes behind it. The currency of comm, data, checkpoint and storage.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/base/dtype.h"

namespace muster {

enum class Device : std::uint8_t { kCpu, kCuda };

using Shape = std::vector<std::int64_t>;

// Product of the extents; 1 for a scalar (empty shape).
std::int64_t element_count(const Shape& shape) noexcept;

struct TensorView {
  DType dtype = DType::kF32;
  Shape shape;
  std::span<std::byte> bytes;  // exactly element_count(shape) * size_of(dtype)
  Device device = Device::kCpu;

  std::int64_t count() const noexcept { return element_count(shape); }

  // The elements as T; the caller knows that T is dtype's type.
  template <class T>
  std::span<T> as() const noexcept {
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

// A one-dimensional view of `values`. T is float, double, int32_t, int64_t or uint8_t.
template <class T>
TensorView view_of(std::span<T> values);

// A tensor with a name, as checkpoints store it.
struct NamedTensor {
  std::string name;
  TensorView tensor;
};

// "F32 [3, 224, 224]", for messages.
std::string describe(const TensorView& view);

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return DType::kF32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kF64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::kI32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kI64;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "f16 and bf16 have no C++ type here");
    return DType::kU8;
  }
}

template <class T>
TensorView view_of(std::span<T> values) {
  return {
      dtype_of<T>(), {static_cast<std::int64_t>(values.size())}, std::as_writable_bytes(values)};
}

}  // namespace muster
