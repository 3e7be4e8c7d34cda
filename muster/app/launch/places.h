#pragma once
// Where a job's workers are: on this host, on others by ssh, or in processes that another launcher
// has started.

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "muster/app/launch/launch.h"

namespace muster::app {

struct Places {
  std::string note;  // for a person
  // Makes those of other processes or hosts; none: this host has all of them.
  std::function<cluster::RemoteWorkers(std::map<std::string, std::string> environment, RemotePlan)>
      remote;
  bool has_worker_here = true;
  std::string address;                  // of this host, as the others see it
  std::optional<CoreShare> core_share;  // of the worker here, where others share its cores
  std::optional<int> interrupted;       // by this signal: nothing else counts
};

// Looks at all hosts first. `options` outlives the places.
Result<Places> find_places(const job::JobSpec& job, const LaunchOptions& options,
                           const Logger& log);

}  // namespace muster::app
