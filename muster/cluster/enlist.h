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
};

// Blocks, not on the loop's thread. `network` outlives the place. kUnavailable: nobody answers;
// kInvalid: the credentials are another job's, or the job takes nobody (more), and why.
Result<std::unique_ptr<Place>> enlist(net::Network& network, const net::Address& coordinator,
                                      const Enlist& offer, Deadline deadline);

}  // namespace muster::cluster
