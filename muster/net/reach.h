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

// Whether `host` is an address of this one, or a name of such. May ask the name service.
// kUnavailable: the name is unknown.
Result<bool> is_own_host(const std::string& host);

// Whether a Network could listen at `address` now; leaves nothing there. kUnavailable: why not.
Status check_listen(const Address& address);
Error cannot_listen(const Address& address, const std::string& reason);

// By which a server of one kind knows a client, and is known.
struct Exchange {
  std::string question;
  std::string answer;
};

// Waits until whoever accepts connections at `address`, which the name service may learn of
// meanwhile, answers `known` so. kUnavailable: nobody has accepted one by `deadline`, and why the
// last try failed; kTimeout: whoever did has not answered so.
Status await_server(const Address& address, const Exchange& known, Deadline deadline,
                    Clock& clock = system_clock());

}  // namespace muster::net
