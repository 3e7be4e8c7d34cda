#pragma once
// Engine `loopback`: a group of ranks in one process. Data really moves, along the same schedules
// as between hosts; for tests, simulations and single-process use. Each communicator is thread-safe
// and runs its operations on a thread of its own.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"

namespace muster::comm {

// The communicators of ranks 0 … size-1, connected to each other. `clock` outlives them.
std::vector<std::shared_ptr<Communicator>> create_loopback(std::int32_t size,
                                                           Generation generation = Generation{1},
                                                           Clock& clock = system_clock());

}  // namespace muster::comm
