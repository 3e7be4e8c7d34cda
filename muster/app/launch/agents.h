#pragma once
// The workers of a job whose processes another launcher has started: one is this process's, and for
// each of the others there is an agent.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/app/launch/hosts.h"
#include "muster/base/process.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/messages.h"
#include "muster/job/spec.h"

namespace muster::app {

struct AgentWorkers {
  std::string launcher = {};                 // "Slurm", for a person
  std::string address = {};                  // by which agents reach this host
  cluster::Attend self = {};                 // number 0: this process
  std::vector<cluster::Attend> agents = {};  // number n at n-1; worker n is its
  std::function<Result<std::unique_ptr<Process>>(std::int32_t number, std::string input)> start =
      {};
  std::function<bool(std::int32_t number)> is_there = {};
  std::optional<int> interrupted = {};  // by this signal, as they were waited for
};

// kInvalid: there are fewer processes than the job has workers, or it would start and end some.
Status check_room(const AgentWorkers& agents, const job::JobSpec& job);

// Which of the workers that share their cores one is, and of how many. A launcher that gives each
// process cores of its own leaves nothing to share.
struct CoreShare {
  std::int32_t number = 0;
  std::int32_t of = 1;
  friend bool operator==(const CoreShare&, const CoreShare&) = default;
};
// Of the worker with this number, among the first `workers`.
CoreShare core_share(const AgentWorkers& agents, std::int32_t worker, std::int32_t workers);

// "started by Slurm: 2 workers here, 1 on node7; 1 more have none"
std::string describe(const AgentWorkers& agents, std::int32_t workers);

// Those of the first `workers` that agents start. `environment`: of each.
cluster::RemoteWorkers remote_workers(AgentWorkers agents, std::int32_t workers,
                                      std::map<std::string, std::string> environment,
                                      RemotePlan plan);

}  // namespace muster::app
