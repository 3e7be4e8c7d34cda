#include "muster/cluster/restart_budget.h"

#include <algorithm>

namespace muster::cluster {

bool RestartBudget::counts(const Restart& restart, TimePoint now, Step at) const {
  return now - restart.when < window_ || at <= restart.at;
}

bool RestartBudget::allows(TimePoint now, Step at) const {
  return std::ranges::count_if(
             restarts_, [&](const Restart& restart) { return counts(restart, now, at); }) < most_;
}

// What does not count any more is forgotten, also where the job goes back behind it later.
void RestartBudget::spend(TimePoint now, Step at) {
  std::erase_if(restarts_, [&](const Restart& restart) { return !counts(restart, now, at); });
  restarts_.push_back({now, at});
}

}  // namespace muster::cluster
