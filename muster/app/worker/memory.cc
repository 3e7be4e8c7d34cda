#include "muster/app/worker/memory.h"

namespace muster::app {

StateMemory state_memory(parallel::ModelStrategy& strategy, std::int32_t ranks) {
  StateMemory memory;
  memory.weights = strategy.weight_bytes(ranks);
  memory.gradients = strategy.gradient_bytes(ranks);
  memory.optimizer = strategy.optimizer_bytes(ranks);
  return memory;
}

}  // namespace muster::app
