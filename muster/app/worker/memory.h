#pragma once
// What a worker must hold whatever its batch: known before the first step.

#include <cstdint>

#include "muster/parallel/model_strategy.h"

namespace muster::app {

struct StateMemory {  // bytes
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;  // at least: ordered mode holds a few partial sums besides
  std::uint64_t optimizer = 0;
  std::uint64_t total() const noexcept { return weights + gradients + optimizer; }
};

// On each of so many ranks.
StateMemory state_memory(parallel::ModelStrategy& strategy, std::int32_t ranks);

}  // namespace muster::app
