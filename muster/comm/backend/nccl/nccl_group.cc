#include "muster/comm/backend/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace muster::comm {

Status nccl_status(const char* told, const char* what) {
  if (told == nullptr) return ok();
  return fail(ErrorCode::kUnavailable,
              fmt::format("[comm/nccl] NCCL does not {}: {}; with NCCL_DEBUG=INFO in the "
                          "environment it says more",
                          what, told));
}

Result<NcclMemory> NcclMemory::allocate(const MusterNccl& nccl, int device, MusterNcclMemory kind,
                                        std::size_t bytes) {
  void* start = nullptr;
  MUSTER_TRY(nccl_status(nccl.allocate(device, kind, std::max<std::size_t>(bytes, 1), &start),
                         "get memory"));
  NcclMemory memory;
  memory.nccl_ = &nccl;
  memory.device_ = device;
  memory.kind_ = kind;
  memory.bytes_ = {static_cast<std::byte*>(start), bytes};
  return memory;
}

Status NcclGroup::begin(const MusterNcclCall& call) {
  if (aborted_) return fail(ErrorCode::kCancelled, "[comm/nccl] the group was aborted");
  return nccl_status(nccl_.begin(group_, &call), "begin");
}

Result<bool> NcclGroup::poll() {
  int done = 0;
  MUSTER_TRY(nccl_status(nccl_.poll(group_, &done), "go on"));
  return done != 0;
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::split(int color, int key) {
  MusterNcclGroup* part = nullptr;
  MUSTER_TRY(nccl_status(nccl_.split(group_, color, key, &part), "split the group"));
  return std::make_unique<NcclGroup>(nccl_, part, device_);
}

void NcclGroup::abort() noexcept {
  if (!std::exchange(aborted_, true)) nccl_.abort(group_);
}

Status NcclGroup::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes == 0) return ok();
  return nccl_status(nccl_.copy(device_, to, from, bytes), "copy a tensor");
}

// Grows by doubling, and gives nothing back as long as there is a group: cudaFree waits for all
// that runs on the device, other groups' collectives included, whose ranks may be waiting for this
// one.
Result<std::byte*> NcclGroup::scratch(Scratch which, std::size_t bytes) {
  NcclMemory& memory = scratch_[which];
  if (memory.bytes().empty() || memory.bytes().size() < bytes) {
    if (!memory.bytes().empty()) outgrown_.push_back(std::exchange(memory, NcclMemory()));
    MUSTER_ASSIGN(memory,
                  NcclMemory::allocate(nccl_, device_, kMusterNcclDevice, std::bit_ceil(bytes)));
  }
  return memory.bytes().data();
}

}  // namespace muster::comm
