#pragma once
// join(): where a training loop of a user's own meets the other processes that were started with
// it.

#include "muster/app/world/world.h"
#include "muster/comm/backend/native/native.h"

namespace muster::app {

struct JoinOptions {
  comm::NativeTransport transport =
      comm::NativeTransport::kAuto;  // how ranks of one host speak, the same on all
  bool over_mpi = false;  // all ranks speak through the MPI that has started them instead
};

// Waits for all that the launcher has started: `muster launch`, torchrun, Open MPI's or MPICH's
// mpirun, Slurm's srun, or whoever sets torchrun's variables (cluster/started_by.h has their
// order); one line on standard error says which it was. Rank and size are the launcher's. A program
// that is started by itself is a world of one. Throws Failure where the others have not come within
// a minute, or what MUSTER_JOIN_TIMEOUT says ("5 min"). Where
// another launcher than muster's has started them, rank 0 keeps the coordinator; the others find it
// through torch's store at MASTER_ADDR and MASTER_PORT. Its credentials go the same way, unless all
// have them already (MUSTER_CREDENTIALS).
World join(const JoinOptions& options = {});

}  // namespace muster::app
