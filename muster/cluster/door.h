#pragma once
// A worker's door: before a newcomer is let in, it and the members knock at each other's. A knock
// is answered once the one behind the door has reached the one who knocks as well. So a worker that
// can reach some of the others only, or be reached by some, costs nobody a generation.

#include <functional>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/net/network.h"

namespace muster::cluster {

// Thread-safe. Callbacks run on the loop's thread.
class Door {
 public:
  virtual ~Door() = default;  // knocks under way end without an answer
  virtual const net::Address& address() const noexcept = 0;

  // Whether this worker and the one whose door is at `there` reach each other. `done` runs exactly
  // once: with an error that says which of the two does not, at the latest at `deadline`.
  virtual void knock(const net::Address& there, Deadline deadline,
                     std::function<void(const Status&)> done) = 0;
};

// At `host`, this host's address as the others reach it. `network` outlives the door.
Result<std::unique_ptr<Door>> open_door(net::Network& network, const std::string& host);

}  // namespace muster::cluster
