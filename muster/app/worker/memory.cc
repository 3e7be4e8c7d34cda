#include "muster/app/worker/memory.h"

namespace muster::app {

StateMemory state_memory(const models::Model& model, std::uint64_t optimizer_bytes) {
  StateMemory memory;
  memory.weights = static_cast<std::uint64_t>(model.parameter_count()) * sizeof(float);
  memory.gradients = static_cast<std::uint64_t>(model.trained_count()) * sizeof(float);
  memory.optimizer = optimizer_bytes;
  return memory;
}

}  // namespace muster::app
