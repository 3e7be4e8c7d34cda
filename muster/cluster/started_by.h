#pragma once
// Who has started this process, if not muster: torchrun, Slurm, an MPI or whoever else sets its
// variables. All of them say which one it is among how many; where the first one can be met, some
// say and the others leave to be found out.

#include <cstdint>
#include <string>

#include "muster/base/result.h"
#include "muster/cluster/variables.h"
#include "muster/net/network.h"

namespace muster::cluster {

struct StartedBy {
  std::string launcher;  // for a person: "torchrun", "Slurm"
  std::int32_t rank = 0;
  std::int32_t ranks = 1;
  // Where the first rank, or its launcher, keeps a store that all can reach.
  net::Address meeting;
  bool is_served = false;    // the launcher keeps that store
  bool speaks_mpi = false;   // it can start the ranks of an MPI
  bool shares_host = false;  // all ranks are known to be on one host
  std::string attempt;       // sets this start apart from others that meet there
};

// Set by muster launch on one of several hosts, to what sets it apart from others.
inline constexpr const char* kLaunchVariable = "MUSTER_LAUNCH";

// Set by people: how long the processes of a start wait for each other ("5 min").
inline constexpr const char* kJoinTimeoutVariable = "MUSTER_JOIN_TIMEOUT";

// Set by people, or by muster launch (--local-addr): the address of its host at which others reach
// a process.
inline constexpr const char* kLocalAddressVariable = "MUSTER_LOCAL_ADDR";

// In this order, the first that holds: muster launch on several hosts, torchrun (or its RANK,
// WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by hand), Kubeflow's PET_*, Open MPI, MPICH and Intel
// MPI (hydra), Slurm, any other that speaks PMI or PMIx, an indexed Job of Kubernetes. An mpirun
// inside of a Slurm job starts its daemons with srun, so the variables of both are there and those
// of Slurm are the daemon's.
// `parent`: of this process, by which ranks of one launcher know each other where nothing else
// tells. kNotFound: nobody of these; kInvalid: variables that contradict each other or lack one,
// with what to set.
Result<StartedBy> who_started(const VariableLookup& variable, std::int32_t parent);

// For a person who looks for a rank that has not come: "each is to be started like this one, with
// its RANK, WORLD_SIZE=3, …", or who starts them.
std::string how_ranks_are_started(const StartedBy& by);

// The first host of a list as Slurm writes it: "node[07-09,12],gpu1" → "node07".
std::string first_host(const std::string& list);

}  // namespace muster::cluster
