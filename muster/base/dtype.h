#pragma once
// The element types that muster moves and reduces.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster {

enum class DType : std::uint8_t { kF16, kBF16, kF32, kF64, kI32, kI64, kU8 };

inline constexpr DType kAllDTypes[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64,
                                       DType::kI32, DType::kI64,  DType::kU8};

constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kU8:
      return 1;
  }
  return 0;
}

// Names as safetensors writes them: "F16", "BF16", "F32", "F64", "I32", "I64", "U8".
std::string_view to_string(DType dtype) noexcept;
std::optional<DType> dtype_from_string(std::string_view name) noexcept;

}  // namespace muster
