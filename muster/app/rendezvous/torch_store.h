#pragma once
// The store that torch's programs meet at (c10d::TCPStore), for processes that another launcher has
// started: under torchrun it is there already, at MASTER_ADDR and MASTER_PORT, and whoever else
// sets these variables expects one there. Whoever reaches its port can read it, as in torch.

#include <memory>

#include "muster/base/clock.h"
#include "muster/cluster/port_owner.h"
#include "muster/cluster/started_by.h"
#include "muster/cluster/store.h"

namespace muster::app {

// Rank 0 keeps the store, for as long as it has this one, unless the launcher does. The others wait
// until it is there. Keys are shared by all that meet at this port, see meeting_key().
// kUnavailable: the port is taken, by another job of muster's too, the name is unknown, or nobody
// came.
Result<std::unique_ptr<cluster::KvStore>> open_torch_store(const cluster::StartedBy& by,
                                                           const cluster::MeetingProcess& self,
                                                           Deadline deadline);

}  // namespace muster::app
