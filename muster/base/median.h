#pragma once
// The middle one of some values. Pure.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace muster {

// The upper one of two; T{} of none.
template <class T>
T median(std::vector<T> values) {
  if (values.empty()) return T{};
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace muster
