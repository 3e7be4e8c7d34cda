#pragma once
// Wrappers: communicators around a communicator. Each overrides submit() once, so it applies to all
// operations of every engine; they compose in any order. Thread-safe like what they wrap.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/communicator.h"
#include "muster/comm/wrap/flight_recorder.h"

namespace muster::comm {

using CommunicatorPtr = std::shared_ptr<Communicator>;

// No operation waits longer than `limit`, whatever its own options say.
CommunicatorPtr with_deadline(CommunicatorPtr inner, Duration limit);

// Called before each submission; an Error fails the operation instead of running it. For tests.
using Fault = std::function<std::optional<Error>(const Op& op, const OpOptions& options)>;
CommunicatorPtr with_faults(CommunicatorPtr inner, Fault fault);

// Writes every operation into `recorder`.
CommunicatorPtr with_trace(CommunicatorPtr inner, std::shared_ptr<FlightRecorder> recorder,
                           Clock& clock = system_clock());

}  // namespace muster::comm
