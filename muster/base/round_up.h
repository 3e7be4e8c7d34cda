#pragma once
// Numbers that are not negative in units of another, rounded up: pages, cache lines, passes. Pure.

#include <concepts>
#include <type_traits>

namespace muster {

// How many pieces of at most `by` make up `value`. by >= 1.
template <std::integral T>
constexpr T ceil_div(T value, std::type_identity_t<T> by) noexcept {
  return (value + by - 1) / by;
}

// The next multiple of `to`, or `value` itself. to >= 1.
template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> to) noexcept {
  return ceil_div(value, to) * to;
}

}  // namespace muster
