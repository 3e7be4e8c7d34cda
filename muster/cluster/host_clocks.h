#pragma once
// HostClocks: whose clock on the wall is another than this host's, by what its processes tell as
// they come. Nothing here decides by such a clock, but people compare what hosts have logged. Pure.

#include <optional>
#include <set>
#include <string>

#include "muster/base/clock.h"
#include "muster/cluster/messages.h"

namespace muster::cluster {

class HostClocks {
 public:
  // What to warn of, once a host: its clock is more than a minute from this one, which shows `now`.
  // What the message may have been on the way is in its favour.
  std::optional<std::string> note(const std::string& host, const WallReading& told, WallTime now);

 private:
  std::set<std::string> warned_of_;
};

}  // namespace muster::cluster
