#pragma once
// Sends records to the launcher, where the sinks live.

#include <memory>

#include "muster/cluster/member.h"
#include "muster/observe/hub.h"

namespace muster::app {

// `member` outlives the sink.
std::shared_ptr<observe::Sink> create_control_sink(cluster::Member& member);

}  // namespace muster::app
