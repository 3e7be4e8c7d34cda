#pragma once
// Messages of tensors wherever they lie, over an engine that knows the host's memory alone. NCCL's
// own have no tags, come in one order only, and end no sooner than their receiver asks. One thread.

#include <map>
#include <utility>
#include <vector>

#include "muster/comm/backend/nccl/nccl_group.h"
#include "muster/comm/engine/engine.h"

namespace muster::comm {

class NcclMessages {
 public:
  // Both outlive it; of `nccl` only copies are asked.
  NcclMessages(Engine& host, const NcclGroup& nccl) : host_(host), nccl_(nccl) {}

  // As Engine says.
  Result<bool> try_send(const Send& send, Deadline deadline);
  Result<bool> try_recv(const Recv& recv);

 private:
  Engine& host_;
  const NcclGroup& nccl_;
  // What comes for tensors of the device, by sender and tag.
  std::map<std::pair<Rank, std::uint32_t>, std::vector<std::byte>> coming_;
};

}  // namespace muster::comm
