#pragma once
// What a worker must hold whatever its batch: known before the first step.

#include <cstdint>
#include <string>

#include "muster/job/spec.h"
#include "muster/parallel/model_strategy.h"

namespace muster::app {

struct StateMemory {  // bytes
  std::uint64_t weights = 0;
  std::uint64_t gradients = 0;  // at least: ordered mode holds a few partial sums besides
  std::uint64_t optimizer = 0;
  std::uint64_t rollback = 0;  // of weights and optimizer, while they are updated
  std::uint64_t disk = 0;      // of the optimizer, instead of memory
  std::uint64_t total() const noexcept { return weights + gradients + optimizer + rollback; }
};

bool offloads(const job::JobSpec& job) noexcept;

// On each of so many ranks. `offloads`: the optimizer's state lies on a disk.
StateMemory state_memory(parallel::ModelStrategy& strategy, std::int32_t ranks, bool offloads);

// ", kept to roll back 12.0 MiB"; nothing where there is none.
std::string for_rollback(const StateMemory& memory);
// ", 12.0 MiB on disk"; likewise.
std::string on_disk(const StateMemory& memory);

}  // namespace muster::app
