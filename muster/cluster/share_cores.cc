#include <sched.h>

#include "muster/base/check.h"
#include "muster/base/share.h"
#include "muster/cluster/launcher.h"

namespace muster::cluster {

std::vector<std::vector<int>> share_cores(const std::vector<int>& cores, std::int32_t workers) {
  MUSTER_CHECK(!cores.empty() && workers >= 1, "there are cores and workers to share them");
  std::vector<std::vector<int>> shares;
  const auto count = static_cast<std::int32_t>(cores.size());
  for (std::int32_t worker = 0; worker < workers; ++worker) {
    const auto share = even_share(count, workers, worker);
    if (share.size() > 0)
      shares.emplace_back(cores.begin() + share.begin, cores.begin() + share.end);
    else
      shares.push_back({cores[static_cast<std::size_t>(worker % count)]});
  }
  return shares;
}

std::vector<int> available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
  if (cores.empty()) cores.push_back(0);
  return cores;
}

}  // namespace muster::cluster
