#pragma once
// The table of muster's module for NCCL without NCCL: ranks are of this process, and memory of a
// device is memory like any other. Where ranks call different collectives nothing ends before it is
// aborted, as with NCCL.

#include "muster/comm/backend/nccl/module/muster_nccl.h"

namespace muster::comm {

const MusterNccl& fake_nccl();                  // with more GPUs than any test has ranks
const MusterNccl& fake_nccl_without_devices();  // says so as CUDA does

}  // namespace muster::comm
