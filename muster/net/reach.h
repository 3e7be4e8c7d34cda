#pragma once
// Short questions to the network, before there is a Network. All of them block.

#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/network.h"

namespace muster::net {

// This host's address on the way to `peer`: where that one, and whoever is beside it, reaches this.
// May ask the name service. kUnavailable: the name is unknown, or no way leads there.
Result<std::string> local_host_towards(const Address& peer);

// Waits until somebody accepts connections at `address`, which the name service may learn of
// meanwhile. kUnavailable: nobody has, by `deadline`, and why the last try failed.
Status await_listener(const Address& address, Deadline deadline, Clock& clock = system_clock());

}  // namespace muster::net
