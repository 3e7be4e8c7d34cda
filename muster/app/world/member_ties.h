#pragma once
// The ties of a rank that a launcher of muster's has started: a member of its one generation.

#include "muster/app/world/world.h"
#include "muster/cluster/environment.h"

namespace muster::app {

// Blocks until all ranks are there. kTimeout: they did not come.
Result<World> meet(const cluster::WorkerEnvironment& environment, const Logger& log);

}  // namespace muster::app
