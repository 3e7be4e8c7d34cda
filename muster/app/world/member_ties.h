#pragma once
// The ties of a rank to others that a launcher has started with it: a member of their one
// generation.

#include <memory>
#include <string>

#include "muster/app/world/host.h"
#include "muster/app/world/world.h"
#include "muster/comm/backend/native/native.h"

namespace muster::app {

struct MeetingPlace {
  net::Address coordinator;
  std::string credentials;                       // net::to_text
  std::int32_t rank = 0;                         // to be, of this process
  Duration patience = std::chrono::seconds(60);  // until all are there
  comm::NativeTransport transport = comm::NativeTransport::kAuto;
  bool over_mpi = false;       // by the MPI that has started the ranks, whatever `transport` says
  bool first_is_host = false;  // the coordinator is rank 0's, and not a launcher's
  std::unique_ptr<Host> host = {};  // on rank 0, then; it stays until all have come to their end
};

// Blocks until all ranks are there. kTimeout: they did not come.
Result<World> meet(MeetingPlace place, const Logger& log);

}  // namespace muster::app
