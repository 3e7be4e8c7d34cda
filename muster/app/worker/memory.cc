#include "muster/app/worker/memory.h"

namespace muster::app {

StateMemory state_memory(const models::Model& model, optim::Optimizer& optimizer) {
  StateMemory memory;
  memory.weights = static_cast<std::uint64_t>(model.parameter_count()) * sizeof(float);
  memory.gradients = memory.weights;
  for (const optim::StateTensor& tensor : optimizer.state())
    memory.optimizer += tensor.tensor.nbytes();
  return memory;
}

}  // namespace muster::app
