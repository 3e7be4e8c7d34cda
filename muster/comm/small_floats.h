#pragma once
// The floating-point types of 16 bits: how they are stored, and that they are computed in f32.

#include <bit>
#include <cstdint>

namespace muster::comm {

struct Half {  // IEEE binary16. Branch-free, so that it vectorises on every instruction set.
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(std::uint16_t half) noexcept {
    const std::uint32_t sign = (half & 0x8000U) << 16;
    const std::uint32_t magnitude = (half & 0x7fffU) << 13;
    const std::uint32_t exponent = magnitude & 0x0f800000U;
    const std::uint32_t normal = magnitude + (112U << 23);
    const std::uint32_t special = magnitude + (224U << 23);  // infinity, NaN
    const float denormal = std::bit_cast<float>(magnitude + (113U << 23)) - 0x1p-14F;
    const std::uint32_t bits = exponent == 0x0f800000U ? special
                               : exponent == 0         ? std::bit_cast<std::uint32_t>(denormal)
                                                       : normal;
    return std::bit_cast<float>(bits | sign);
  }
  static std::uint16_t store(float value) noexcept {  // to nearest, ties to even
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    const std::uint32_t special = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
    const std::uint32_t denormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const std::uint32_t normal =
        (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const std::uint32_t half = magnitude >= 0x47800000U  ? special
                               : magnitude < 0x38800000U ? denormal
                                                         : normal;
    return static_cast<std::uint16_t>(half | sign);
  }
};

struct BFloat {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(std::uint16_t value) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
  }
  static std::uint16_t store(float value) noexcept {  // to nearest, ties to even
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const std::uint32_t rounded = bits + 0x7fffU + ((bits >> 16) & 1U);
    return static_cast<std::uint16_t>((nan ? (bits | 0x400000U) : rounded) >> 16);
  }
};

}  // namespace muster::comm
