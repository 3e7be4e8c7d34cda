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
  memory.rollback = strategy.rollback_bytes();
  return memory;
}

std::string for_rollback(const StateMemory& memory) {
  return memory.rollback == 0
             ? ""
             : fmt::format(", kept to roll back {}", format_bytes(memory.rollback));
}

std::string on_disk(const StateMemory& memory) {
  return memory.disk == 0 ? "" : fmt::format(", {} on disk", format_bytes(memory.disk));
}

}  // namespace muster::app
