#pragma once
// What a launcher tells its workers through their environment, and how they read it.

#include <csignal>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/cluster/member.h"
#include "muster/cluster/variables.h"
#include "muster/net/credentials.h"

namespace muster::cluster {

// What a worker is told by signals. Whoever starts one holds them until it listens: its libraries
// alone take a while to load.
inline std::vector<int> worker_signals() { return {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}; }

struct WorkerEnvironment {
  net::Address coordinator;        // MUSTER_COORDINATOR, and MASTER_ADDR, MASTER_PORT
  std::int32_t worker = 0;         // MUSTER_WORKER, and RANK
  std::int32_t workers = 1;        // MUSTER_WORLD_SIZE, and WORLD_SIZE
  std::int32_t local_worker = 0;   // LOCAL_RANK
  std::int32_t local_workers = 1;  // LOCAL_WORLD_SIZE
  std::int32_t lanes = 1;          // MUSTER_LANES: threads this worker should compute on
  std::string credentials;         // MUSTER_CREDENTIALS: net::to_text
  std::string whereabouts = {};    // MUSTER_WHEREABOUTS: their address; empty: nobody reads them
  bool host_is_watched = false;    // MUSTER_HOST_IS_WATCHED: its launcher, on the same host, asks
                                   // whether that is wanted back
};

std::map<std::string, std::string> to_variables(const WorkerEnvironment& environment);

// kNotFound: not started by muster's launcher; kInvalid: a variable that makes no sense, named.
Result<WorkerEnvironment> read_environment(const VariableLookup& variable);

// Host name, boot id and pid of this process.
WorkerInfo describe_this_process(std::int32_t worker, Files& files = system_files());

}  // namespace muster::cluster
