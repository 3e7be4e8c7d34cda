#include "muster/base/tensor_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace muster {
namespace {

struct Name {
  DType dtype;
  std::string_view name;
};
constexpr Name kNames[] = {{DType::kF16, "F16"}, {DType::kBF16, "BF16"}, {DType::kF32, "F32"},
                           {DType::kF64, "F64"}, {DType::kI32, "I32"},   {DType::kI64, "I64"},
                           {DType::kU8, "U8"}};

}  // namespace

std::string_view to_string(DType dtype) noexcept {
  for (const Name& entry : kNames) {
    if (entry.dtype == dtype) return entry.name;
  }
  return "?";
}

std::optional<DType> dtype_from_string(std::string_view name) noexcept {
  for (const Name& entry : kNames) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

std::int64_t element_count(const Shape& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string describe(const TensorView& view) {
  return fmt::format("{} [{}]", to_string(view.dtype), fmt::join(view.shape, ", "));
}

}  // namespace muster
