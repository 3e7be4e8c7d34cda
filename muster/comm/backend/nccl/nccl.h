#pragma once
// Engine `nccl`: the collectives of GPUs by NCCL, and so over NVLink, InfiniBand, or whatever it
// finds between them. It stands on a transport between the same ranks (native.h, `over`), which
// carries what NCCL does not have: what each rank calls, who is missing, that somebody gave up,
// messages under tags, and ordered sums.
//
// Tensors on the device are used where they are, behind what the device's default stream was given
// before; those of the host go through memory of the device. NCCL is one library in a process:
// loaded once, it stays.

#include <memory>
#include <string>

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/comm/backend/nccl/module/muster_nccl.h"
#include "muster/comm/engine/transport.h"

namespace muster::comm {

// kUnavailable: this machine lacks what the module needs, or it is of another version of muster.
Result<MusterNccl*> load_nccl(const Path& module);

// "NCCL 2.28.9, CUDA 13.0, 2 GPUs". kUnavailable: it finds none.
Result<std::string> describe(const MusterNccl& nccl);

struct NcclOptions {
  const MusterNccl* nccl = nullptr;  // outlives the engines
  std::string host;                  // names this machine, whose ranks get its GPUs in their order
  Logger log = create_null_logger();
};

// Collective, as what it makes is. kUnavailable, alike on all ranks: one has no GPU.
EngineOver nccl_over_transport(NcclOptions options);

}  // namespace muster::comm
