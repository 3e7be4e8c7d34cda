#include <fmt/format.h>

#include <algorithm>

#include "muster/base/units.h"
#include "muster/job/draft.h"

namespace muster::job {
namespace {

constexpr std::string_view kHosts = "workers.hosts";
constexpr std::string_view kCount = "workers.count";

bool autoscales(const Draft& draft) { return draft.spec.autoscaling.starts_workers(); }

void check_room(Draft& draft) {
  const WorkersSpec& workers = draft.spec.workers;
  const std::int64_t slots = slots_of(workers.hosts);
  const auto has_room = [&](std::string_view for_whom) {
    return fmt::format("workers.hosts has room for {}, and {}", counted(slots, "worker"), for_whom);
  };
  constexpr std::string_view kHelp =
      "`node7:4` has room for four; without any hosts (`workers.hosts: []`) all are started here";
  if (autoscales(draft) && workers.max_workers > slots) {
    draft.complain({kHosts, "workers.max_workers"},
                   has_room(fmt::format("autoscaling.policy may start workers.max_workers {}",
                                        draft.shown("workers.max_workers"))),
                   std::string(kHelp));
  } else if (workers.processes() > slots) {
    draft.complain({kHosts, kCount, "workers.standbys"},
                   has_room(fmt::format("the job has {} with its standbys", workers.processes())),
                   std::string(kHelp));
  }
}

}  // namespace

// Whoever names the hosts says how many, unless somebody whose word counts as much gives a number.
void count_by_hosts(Draft& draft) {
  WorkersSpec& workers = draft.spec.workers;
  const auto hosts = draft.assigned.find(kHosts);
  const auto count = draft.assigned.find(kCount);
  const bool has_count = count != draft.assigned.end();
  if (draft.faulty.contains(kHosts) && !has_count) draft.faulty.emplace(kCount);
  const bool is_refused = !draft.started_by.empty();
  if (hosts == draft.assigned.end() || workers.hosts.empty() || autoscales(draft) || is_refused)
    return;
  if (has_count && count->second.origin.kind >= hosts->second.origin.kind) return;
  workers.count = std::max<std::int64_t>(1, slots_of(workers.hosts) - workers.standbys);
  draft.assigned[std::string(kCount)] = hosts->second;
}

void check_hosts(Draft& draft) {
  if (draft.spec.workers.hosts.empty()) return;
  constexpr std::string_view kOneOfTheTwo =
      "use one of the two; `--set workers.hosts=[]` passes over the hosts of a job";
  if (!draft.started_by.empty())
    return draft.complain({kHosts},
                          fmt::format("workers.hosts has workers started by ssh, and processes for "
                                      "them are started by {}",
                                      draft.started_by),
                          std::string(kOneOfTheTwo));
  if (draft.spec.communication.engine == EngineKind::kMpi)
    return draft.refuse("communication.engine", kHosts,
                        "has the workers that MPI has started, and no others",
                        std::string(kOneOfTheTwo));
  check_room(draft);
}

}  // namespace muster::job
