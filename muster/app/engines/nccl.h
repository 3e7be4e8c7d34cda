#pragma once
// The NCCL of `communication.engine: nccl`.

#include <string>

#include "muster/base/files.h"
#include "muster/cluster/variables.h"
#include "muster/comm/backend/nccl/nccl.h"

namespace muster::app {

// Names another module than the one beside the programs: a path.
inline constexpr const char* kNcclVariable = "MUSTER_NCCL";

// muster's module for NCCL, for the programs in `folder` (bin/, lib/muster/). kUnavailable, with
// what to do: there is none.
Result<Path> nccl_module(Files& files, const cluster::VariableLookup& variable, const Path& folder);

// "NCCL 2.28.9, CUDA 13.0, 2 GPUs"; an error where it cannot be loaded, or finds no GPU.
Result<std::string> describe_nccl(const Path& module);

// The module of this program.
Result<MusterNccl*> load_nccl();

}  // namespace muster::app
