#pragma once
// How often a job may start a new worker for one that died: so many times within a window, as
// systemd's StartLimitIntervalSec counts. A job that dies at the same place again and again would
// outlive any window, so a restart counts in any case until the job has got further. One thread.

#include <cstdint>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::cluster {

class RestartBudget {
 public:
  RestartBudget(std::int32_t most, Duration window) : most_(most), window_(window) {}

  // For a worker that is lost now, in a job that is at this step.
  bool allows(TimePoint now, Step at) const;
  void spend(TimePoint now, Step at);

 private:
  struct Restart {
    TimePoint when;
    Step at;
  };
  bool counts(const Restart& restart, TimePoint now, Step at) const;

  const std::int32_t most_;
  const Duration window_;
  std::vector<Restart> restarts_;  // that may still count
};

}  // namespace muster::cluster
