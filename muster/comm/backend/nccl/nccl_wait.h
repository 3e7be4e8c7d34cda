#pragma once
// Waiting for NCCL, which says of nothing that it has happened, and of no rank that it is gone.

#include <functional>
#include <optional>

#include "muster/comm/backend/nccl/nccl_group.h"
#include "muster/comm/engine/transport.h"

namespace muster::comm {

struct NcclWait {
  Transport& transport;  // what has happened among the ranks
  const Group& group;    // its ranks
  Deadline deadline;
  bool in_collective = false;  // one that transport.enter() knows
  // Why the wait ends all the same, if it does. May be empty.
  std::function<std::optional<Error>()> ends = {};
};

// Until what `nccl` began last is over. kTimeout without text at the deadline; else whose failure
// it was where the transport says so, and what NCCL says where it does not.
Status await(NcclGroup& nccl, const NcclWait& wait);

}  // namespace muster::comm
