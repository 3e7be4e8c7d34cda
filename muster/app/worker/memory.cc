#include "muster/app/worker/memory.h"

#include <fmt/format.h>

#include "muster/base/units.h"

namespace muster::app {

bool offloads(const job::JobSpec& job) noexcept {
  return job.optimizer.offload == job::OffloadKind::kDisk;
}

StateMemory state_memory(parallel::ModelStrategy& strategy, std::int32_t ranks, bool offloads) {
  StateMemory memory;
  memory.weights = strategy.weight_bytes(ranks);
  memory.gradients = strategy.gradient_bytes(ranks);
  (offloads ? memory.disk : memory.optimizer) = strategy.optimizer_bytes(ranks);
  return memory;
}

std::string on_disk(const StateMemory& memory) {
  return memory.disk == 0 ? "" : fmt::format(", {} on disk", format_bytes(memory.disk));
}

}  // namespace muster::app
