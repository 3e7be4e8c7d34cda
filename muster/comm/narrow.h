#pragma once
// Numbers in f32 that are sums of numbers of 16 bits: rounded in the same places as reduce() rounds
// them, so that it does not show where a sum was formed. `dtype` is kF16 or kBF16. Rounds to
// nearest even; what is too large becomes infinite. Pure and thread-safe.

#include <cstddef>
#include <span>

#include "muster/base/dtype.h"

namespace muster::comm {

void narrow(DType dtype, std::span<const float> values, std::byte* out) noexcept;
void widen(DType dtype, const std::byte* values, std::span<float> out) noexcept;  // exact

// What widen() makes of narrow().
void round_to(DType dtype, std::span<float> values) noexcept;

}  // namespace muster::comm
