#pragma once
// An operation on tensors of the device, as one on copies of them in the host's memory.

#include <deque>
#include <vector>

#include "muster/comm/backend/nccl/nccl_group.h"
#include "muster/comm/op.h"

namespace muster::comm {

class HostCopies {
 public:
  // Has `op`, an ordered sum, mean copies of those of its tensors that are on the device. Both
  // outlive it.
  HostCopies(Op& op, const NcclGroup& nccl);

  Status bring_in();
  Status bring_out() const;

 private:
  void stand_in(TensorView& view, bool is_read, bool is_written);

  struct Copy {
    std::byte* on_device;
    std::vector<std::byte> bytes;
    bool is_read;
    bool is_written;
  };
  const NcclGroup& nccl_;
  std::deque<Copy> copies_;  // stay where they are
};

}  // namespace muster::comm
