#pragma once
// The MPI of `communication.engine: mpi`: the one that has started this process.

#include <memory>
#include <string>
#include <vector>

#include "muster/base/log.h"
#include "muster/cluster/variables.h"
#include "muster/comm/backend/mpi/mpi_network.h"

namespace muster::app {

// Names another module than the launcher's own: openmpi, mpich, or a path.
inline constexpr const char* kMpiVariable = "MUSTER_MPI";

// The module of muster compiled against it, beside the programs in `folder` (bin/, lib/muster/).
// kInvalid, with what to do: no MPI has started this process.
Result<Path> mpi_module(const cluster::VariableLookup& variable, const Path& folder);

// Those that are there: "mpich", "openmpi".
std::vector<std::string> mpi_modules(Files& files, const Path& folder);

// Begins MPI in this process, for its whole life. `job`: Credentials::job.
Result<std::unique_ptr<comm::MpiNetwork>> begin_mpi(std::uint64_t job, const Logger& log);

}  // namespace muster::app
