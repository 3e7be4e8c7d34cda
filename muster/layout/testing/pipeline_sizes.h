#pragma once
// Pipelines of many sizes. For tests.

#include <cstdint>

#include "muster/base/testing/sanitized.h"

namespace muster::layout {

// Sizes as they come: odd ones, one stage, fewer micro-batches than stages, multiples of them and
// others.
template <class Visit>
void for_many_sizes(Visit visit) {
  for (const std::int32_t stages : {1, 2, 3, 4, 5, 6, 7, 8})
    for (const std::int32_t micro_batches : {1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 19, 32, 33})
      if (!kSanitized || micro_batches < 10) visit(stages, micro_batches);
}

}  // namespace muster::layout
