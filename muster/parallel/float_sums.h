#pragma once
// Sums of gradients in f32, and of numbers of 16 bits held as f32. Pure.

#include <cstddef>

#include "muster/base/dtype.h"
#include "muster/comm/narrow.h"

namespace muster::parallel {

// Plain loops over restrict-qualified floats: the compiler vectorises them, and a lone addition
// gives the same bits with every instruction set.
inline void add_into(float* __restrict to, const float* __restrict from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

// In a bucket of 16 bits every unit's gradient and every sum of two is a number of that type, as in
// the sums between workers.
inline void round_as(DType dtype, float* values, std::size_t count) {
  if (dtype != DType::kF32) comm::round_to(dtype, {values, count});
}

}  // namespace muster::parallel
