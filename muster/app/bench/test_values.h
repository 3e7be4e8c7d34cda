#pragma once
// Numbers that show which rank's element is missing, doubled or in the wrong place, exact in each
// floating-point type at any size of world. Pure.

#include <cstdint>
#include <optional>

#include "muster/base/tensor_view.h"

namespace muster::app {

// What rank `rank` of `ranks` adds as element `i` of a sum: only one rank has a number there.
double summand(std::int32_t rank, std::int32_t ranks, std::int64_t i) noexcept;
double sum_at(std::int64_t i) noexcept;  // of all ranks

// Element `i` of what `from` has for `to`.
double word(std::int32_t from, std::int32_t to, std::int64_t i) noexcept;

// Element i of a floating-point tensor.
void put(const TensorView& tensor, std::int64_t i, double value) noexcept;
double get(const TensorView& tensor, std::int64_t i) noexcept;

}  // namespace muster::app
