#pragma once
// A net::Network over MPI: connections between the processes of an MPI world, which are its ranks,
// for all that MPI reaches them by (UCX, libfabric, InfiniBand). The native engine plays its
// schedules over it as over TCP (backend/native/native.h, with NativeTransport::kTcp), so
// everything that holds there does here: deadlines, aborts, ordered sums.
// Who belongs to the world says MPI: nothing is encrypted, and whoever it lets in is trusted. A
// process that dies is not noticed here: the control plane does.
// MPI begins once in a process and cannot begin again; so there is one of these in it.

#include <memory>
#include <string>

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/net/network.h"

namespace muster::comm {

struct MpiOptions {
  Path module;            // of the MPI that has started this process (backend/mpi/module)
  std::uint64_t job = 0;  // whoever is of another one is refused; Credentials::job
  std::uint64_t max_frame = 64u << 20;  // bytes of payload
  Logger log;
  Duration patience = std::chrono::seconds(60);  // until MPI has begun in all processes
  Clock* clock = &system_clock();
};

class MpiNetwork : public net::Network {  // thread-safe
 public:
  virtual int size() const noexcept = 0;  // of the world
  // In good order: waits until all has left and every process of the world has come to this.
  // Without it MPI's launcher takes the end of this process for a failure. kTimeout: the others
  // have not come; this object must then outlive everything.
  virtual Status finish(Deadline deadline) = 0;
};

// Addresses are "<rank in the world>:<port>". What listen() is asked for as host does not matter.
// kUnavailable: this machine does not have the MPI, or it does not begin.
Result<std::unique_ptr<MpiNetwork>> create_mpi_network(const MpiOptions& options);

}  // namespace muster::comm
