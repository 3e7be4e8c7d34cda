#pragma once
// Engine `loopback`: a group of ranks in one process. Data really moves, along the same schedules
// as between hosts; for tests, simulations and single-process use. Each communicator is thread-safe
// and runs its operations on a thread of its own.

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"
#include "muster/comm/cost.h"
#include "muster/comm/topology.h"

namespace muster::comm {

// The communicators of ranks 0 … size-1, connected to each other. `clock` outlives them.
std::vector<std::shared_ptr<Communicator>> create_loopback(std::int32_t size,
                                                           Generation generation = Generation{1},
                                                           Clock& clock = system_clock());

// The same as if the ranks were on several hosts, with links that cost so much: schedules are those
// for them. Parts that split off are as if on one host.
std::vector<std::shared_ptr<Communicator>> create_loopback(
    const Topology& topology, const CostTable& costs = default_costs(Wire::kMemory),
    Generation generation = Generation{1}, Clock& clock = system_clock());

}  // namespace muster::comm
