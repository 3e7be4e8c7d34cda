#include "muster/app/launch/places.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/cluster/environment.h"
#include "muster/cluster/launchers/ssh/ssh.h"

namespace muster::app {
namespace {

Result<Places> places_of_agents(const job::JobSpec& job, const AgentWorkers& agents) {
  MUSTER_TRY(check_room(agents, job));
  const auto workers = static_cast<std::int32_t>(job.workers.processes());
  Places places;
  places.note = describe(agents, workers);
  places.core_share = core_share(agents, 0, workers);
  if (workers == 1) return places;
  places.address = agents.address;
  places.remote = [&agents, workers](auto environment, RemotePlan plan) {
    return remote_workers(agents, workers, std::move(environment), plan);
  };
  return places;
}

// "started by torchrun: 1 worker here"; empty: all are here, as is said of them anyway.
std::string note_of(const Placement& first, const Placement& room, const std::string& launcher) {
  if (room.elsewhere.empty() && launcher.empty()) return "";
  std::string note = launcher.empty() ? "" : fmt::format("started by {}: ", launcher);
  note += describe(first);
  if (!room.elsewhere.empty() && first != room) note += "; room for " + describe(room);
  return note;
}

Result<Places> places_by_ssh(const job::JobSpec& job, const LaunchOptions& options,
                             const Logger& log) {
  const bool scales = job.autoscaling.starts_workers();
  const std::int64_t most = scales ? job.workers.max_workers : job.workers.processes();
  const std::string this_host = cluster::describe_this_process(0).host;
  const Placement room = place_workers(job.workers.hosts, most, this_host);
  const Placement first = first_of(room, job.workers.processes());
  Places places;
  places.note = note_of(first, room, options.started_by);
  if (room.elsewhere.empty()) return places;
  std::vector<std::string> spares;
  if (job.strategy.keeps_ranks() && job.workers.standbys > 0)
    spares = spare_hosts(job.workers.hosts, most, this_host);
  std::vector<std::string> later = room.elsewhere;
  later.insert(later.end(), spares.begin(), spares.end());
  const std::shared_ptr<const cluster::RemoteShell> shell = cluster::create_ssh();
  MUSTER_ASSIGN(
      const LookedAt looked,
      look_at_hosts(*shell, {.needed = first.elsewhere, .later = std::move(later)}, options.carried,
                    job.workers.listen.empty(), system_processes(), log));
  if (!looked.absent.empty()) log->warn("{}", looked.absent);
  places.has_worker_here = room.here > 0;
  places.address = looked.address;
  places.interrupted = looked.interrupted;
  places.remote = [shell, hosts = room.elsewhere, spares = std::move(spares),
                   carried = options.carried](auto environment, RemotePlan plan) mutable {
    carried.environment = std::move(environment);
    auto remote = remote_workers(shell, hosts, carried, plan, system_processes());
    remote.spares = spares;
    return remote;
  };
  return places;
}

}  // namespace

Result<Places> find_places(const job::JobSpec& job, const LaunchOptions& options,
                           const Logger& log) {
  return options.agents ? places_of_agents(job, *options.agents) : places_by_ssh(job, options, log);
}

}  // namespace muster::app
