#pragma once
// What the way between two workers of this host costs, found out with two ranks of engine `native`
// that are threads of this process.

#include "muster/base/result.h"
#include "muster/comm/cost.h"
#include "muster/comm/engine/time_link.h"

namespace muster::app {

// kMemory: messages through shared memory. kTcp: over the loopback interface with TLS, as ranks
// measure it when they meet. Takes some tens of milliseconds; where the engine hangs, some seconds.
// Leaves nothing behind. Errors are those of the engine, or say what the system did not give.
Result<comm::MeasuredLink> measure_link(comm::Wire wire);

}  // namespace muster::app
