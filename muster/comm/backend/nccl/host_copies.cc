#include "muster/comm/backend/nccl/host_copies.h"

namespace muster::comm {

HostCopies::HostCopies(Op& op, const NcclGroup& nccl) : nccl_(nccl) {
  if (auto* reduce = std::get_if<AllReduce>(&op)) stand_in(reduce->buffer, true, true);
  if (auto* scatter = std::get_if<ReduceScatter>(&op)) {
    stand_in(scatter->input, true, false);
    stand_in(scatter->output, false, true);
  }
}

void HostCopies::stand_in(TensorView& view, bool is_read, bool is_written) {
  if (view.device == Device::kCpu) return;
  copies_.push_back(
      {view.bytes.data(), std::vector<std::byte>(view.bytes.size()), is_read, is_written});
  view.bytes = copies_.back().bytes;
  view.device = Device::kCpu;
}

Status HostCopies::bring_in() {
  for (Copy& copy : copies_)
    if (copy.is_read) MUSTER_TRY(nccl_.copy(copy.bytes.data(), copy.on_device, copy.bytes.size()));
  return ok();
}

Status HostCopies::bring_out() const {
  for (const Copy& copy : copies_)
    if (copy.is_written)
      MUSTER_TRY(nccl_.copy(copy.on_device, copy.bytes.data(), copy.bytes.size()));
  return ok();
}

}  // namespace muster::comm
