#pragma once
// How a host that has a worker to offer finds its place in a job that runs elsewhere.

#include <memory>

#include "muster/base/log.h"
#include "muster/cluster/messages.h"
#include "muster/net/network.h"

namespace muster::cluster {

// A worker's number, reserved for as long as this lives.
class Place {
 public:
  virtual ~Place() = default;
  virtual const Enlisted& enlisted() const noexcept = 0;
  // The last that the launcher hears from here, and the end of the place. Blocks until it is on its
  // way, not on the loop's thread; a launcher that is gone needs it no more.
  virtual void tell_end(const Ended& ended, Deadline deadline) = 0;
};

// Blocks, not on the loop's thread. Tells of this host's clock as well. `network` outlives the
// place. kUnavailable: nobody answers; kInvalid: the credentials are another job's, or the job
// takes nobody (more), and why.
Result<std::unique_ptr<Place>> enlist(net::Network& network, const net::Address& coordinator,
                                      Enlist offer, Deadline deadline);

}  // namespace muster::cluster
