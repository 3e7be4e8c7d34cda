#pragma once
// Paces of workers that differ in how fast they compute. For tests.

#include <cstdint>
#include <vector>

#include "muster/train/pace.h"

namespace muster::train {

// Of steps of ten slices.
inline std::vector<Pace> paces_of(const std::vector<double>& seconds_a_slice,
                                  std::int32_t lanes = 1) {
  std::vector<Pace> paces;
  for (const double slice : seconds_a_slice)
    paces.push_back({.worker = static_cast<std::int32_t>(paces.size()),
                     .lanes = lanes,
                     .slice = slice,
                     .step = 10 * slice});
  return paces;
}

}  // namespace muster::train
