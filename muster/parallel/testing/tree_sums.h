#pragma once
// Gradients of units whose sum depends on the order of addition, and that sum by the definition of
// the tree. For tests.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "muster/base/random.h"
#include "muster/base/tensor_view.h"
#include "muster/comm/narrow.h"
#include "muster/comm/sum_tree.h"

namespace muster::parallel {

// `what`: which of the unit's gradients.
inline std::vector<float> random_gradient(std::int32_t unit, std::uint64_t what,
                                          std::int64_t count) {
  const RandomStream random =
      RandomStream(7, "gradient", static_cast<std::uint64_t>(unit)).fork(what);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = random.normal(i) * (unit % 3 == 0 ? 1e4F : 1.0F);
  return values;
}

inline std::vector<float> plus(std::vector<float> left, const std::vector<float>& right) {
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

inline std::vector<float> rounded(DType dtype, std::vector<float> values) {
  if (dtype != DType::kF32) comm::round_to(dtype, values);
  return values;
}

inline std::vector<float> naive_sum(
    comm::LeafRange range, DType dtype,
    const std::function<std::vector<float>(std::int32_t unit)>& gradient_of) {
  if (range.size() == 1) return rounded(dtype, gradient_of(range.begin));
  const std::int32_t middle = comm::split_point(range);
  return rounded(dtype, plus(naive_sum({range.begin, middle}, dtype, gradient_of),
                             naive_sum({middle, range.end}, dtype, gradient_of)));
}

}  // namespace muster::parallel
