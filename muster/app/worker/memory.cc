#include "muster/app/worker/memory.h"

namespace muster::app {

StateMemory state_memory(parallel::ModelStrategy& strategy, std::int32_t ranks) {
  StateMemory memory;
  memory.weights = static_cast<std::uint64_t>(strategy.model().parameter_count()) * sizeof(float);
  memory.gradients = strategy.gradient_bytes(ranks);
  memory.optimizer = strategy.optimizer_bytes(ranks);
  return memory;
}

}  // namespace muster::app
