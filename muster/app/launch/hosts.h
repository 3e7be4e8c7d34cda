#pragma once
// The other hosts of a job (workers.hosts): looked at before anything begins, so that one that
// cannot take part is named with the reason, and how workers are started there.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/app/join/join.h"
#include "muster/base/exit_code.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/launcher.h"
#include "muster/cluster/remote_shell.h"
#include "muster/job/spec.h"

namespace muster::app {

// What workers of other hosts have of this one.
struct CarriedAlong {
  Path program = {};         // muster's path; there as well, or on the PATH
  std::string version = {};  // the first line of its --version
  Path folder = {};          // the working folder
  std::map<std::string, std::string> environment = {};  // of the workers
};

// Where each worker is, this host's first.
struct Placement {
  std::int64_t here = 0;
  std::vector<std::string> elsewhere;  // the host of each
  friend bool operator==(const Placement&, const Placement&) = default;
};
// `this_host`: its name; `localhost` and the loopback addresses mean it as well. No hosts: all are
// here.
Placement place_workers(const std::vector<job::HostSlots>& hosts, std::int64_t workers,
                        std::string_view this_host);

// Other hosts with places beyond those of so many workers, one for each such place.
std::vector<std::string> spare_hosts(const std::vector<job::HostSlots>& hosts, std::int64_t workers,
                                     std::string_view this_host);

// Of those places the first.
Placement first_of(const Placement& places, std::int64_t workers);

// "1 worker here, 4 on node7, 1 on node8"
std::string describe(const Placement& placement);

// Other hosts, as often as they are named.
struct OtherHosts {
  std::vector<std::string> needed;      // from the beginning
  std::vector<std::string> later = {};  // workers may be started there, or elsewhere
};

struct LookedAt {
  std::string address;             // of this host, as the others see it
  std::string absent = {};         // which of `later` cannot take part yet, and why; empty: none
  std::optional<int> interrupted;  // by this signal: nothing else counts
};

// Asks every one of `hosts` whether it can be reached, has this muster, and the working folder.
// Blocks for a minute at most. kUnavailable: some that are needed cannot take part, each with the
// reason and what to do; or, where `must_agree`, no address of this host is the same to all, or
// nobody is there to tell it.
Result<LookedAt> look_at_hosts(const cluster::RemoteShell& shell, const OtherHosts& hosts,
                               const CarriedAlong& carried, bool must_agree, Processes& processes,
                               const Logger& log);

// How those workers are started.
struct RemotePlan {
  bool resumes = false;           // the run
  bool needs_run_folder = false;  // each of them
};
// What one of them is told as it is started.
Orders orders_for(const cluster::RemoteStart& start, const RemotePlan& plan,
                  const std::map<std::string, std::string>& environment);
cluster::RemoteWorkers remote_workers(std::shared_ptr<const cluster::RemoteShell> shell,
                                      std::vector<std::string> hosts, CarriedAlong carried,
                                      RemotePlan plan, Processes& processes);

}  // namespace muster::app
