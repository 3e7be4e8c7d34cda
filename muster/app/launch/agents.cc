#include "muster/app/launch/agents.h"

#include <fmt/format.h>

#include "muster/app/join/orders.h"

namespace muster::app {
namespace {

const cluster::Attend& of_worker(const AgentWorkers& agents, std::int32_t worker) {
  return worker == 0 ? agents.self : agents.agents.at(static_cast<std::size_t>(worker) - 1);
}

}  // namespace

Status check_room(const AgentWorkers& agents, const job::JobSpec& job) {
  if (job.autoscaling.policy != job::AutoscalingPolicy::kNone)
    return fail(ErrorCode::kInvalid,
                fmt::format("[train] autoscaling.policy starts and ends workers by itself, and a "
                            "process for each was started by {}; use one of the two",
                            agents.launcher));
  const auto room = std::ssize(agents.agents) + 1;
  if (job.workers.processes() <= room) return ok();
  return fail(
      ErrorCode::kInvalid,
      fmt::format("[train] {} processes were started by {}, and the job has {} workers with "
                  "its standbys; start one for each, or leave --workers out",
                  room, agents.launcher, job.workers.processes()));
}

CoreShare core_share(const AgentWorkers& agents, std::int32_t worker, std::int32_t workers) {
  const cluster::Attend& mine = of_worker(agents, worker);
  CoreShare share{.number = 0, .of = 0};
  for (std::int32_t other = 0; other < workers; ++other) {
    const cluster::Attend& theirs = of_worker(agents, other);
    if (theirs.boot_id != mine.boot_id || theirs.cores != mine.cores) continue;
    if (other < worker) ++share.number;
    ++share.of;
  }
  return share;
}

std::string describe(const AgentWorkers& agents, std::int32_t workers) {
  Placement placement{.here = 1, .elsewhere = {}};
  for (std::int32_t worker = 1; worker < workers; ++worker) {
    const cluster::Attend& agent = of_worker(agents, worker);
    if (agent.boot_id == agents.self.boot_id && agent.host == agents.self.host) {
      ++placement.here;
    } else {
      placement.elsewhere.push_back(agent.host);
    }
  }
  const auto idle = std::ssize(agents.agents) + 1 - workers;
  return fmt::format("started by {}: {}{}", agents.launcher, describe(placement),
                     idle > 0 ? fmt::format("; {} more have none", idle) : "");
}

cluster::RemoteWorkers remote_workers(AgentWorkers agents, std::int32_t workers,
                                      std::map<std::string, std::string> environment,
                                      RemotePlan plan) {
  cluster::RemoteWorkers remote{
      .hosts = {}, .carrier = agents.launcher, .start = {}, .can_start = agents.is_there};
  for (std::int32_t worker = 1; worker < workers; ++worker)
    remote.hosts.push_back(of_worker(agents, worker).host);
  remote.start = [agents = std::move(agents), workers, environment = std::move(environment),
                  plan](const cluster::RemoteStart& start) {
    const CoreShare share = core_share(agents, start.worker, workers);
    Orders orders = orders_for(start, plan, environment);
    orders.local_worker = share.number;
    orders.local_workers = share.of;
    return agents.start(start.worker, to_line(orders));
  };
  return remote;
}

}  // namespace muster::app
