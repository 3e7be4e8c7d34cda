#pragma once
// A rank's end of one of NCCL's groups, with its place on a device. One thread at a time.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/backend/nccl/module/muster_nccl.h"

namespace muster::comm {

// What the table says went wrong, if anything: `what` NCCL did not do.
Status nccl_status(const char* told, const char* what);

// Memory that one of the table's functions gave; it goes back with this.
class NcclMemory {
 public:
  static Result<NcclMemory> allocate(const MusterNccl& nccl, int device, MusterNcclMemory kind,
                                     std::size_t bytes);
  NcclMemory() = default;
  NcclMemory(NcclMemory&& other) noexcept { *this = std::move(other); }
  NcclMemory& operator=(NcclMemory&& other) noexcept {
    std::swap(nccl_, other.nccl_);
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~NcclMemory() {
    if (bytes_.data() != nullptr) nccl_->free(device_, kind_, bytes_.data());
  }

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  const MusterNccl* nccl_ = nullptr;
  int device_ = 0;
  MusterNcclMemory kind_ = kMusterNcclDevice;
  std::span<std::byte> bytes_;
};

class NcclGroup {
 public:
  // Owns `group`.
  NcclGroup(const MusterNccl& nccl, MusterNcclGroup* group, int device)
      : nccl_(nccl), group_(group), device_(device) {}
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  ~NcclGroup() { nccl_.release(group_); }

  const MusterNccl& table() const noexcept { return nccl_; }
  int device() const noexcept { return device_; }

  // As the table says.
  Status begin(const MusterNcclCall& call);
  Result<bool> poll();
  Result<std::unique_ptr<NcclGroup>> split(int color, int key);
  Status finish() { return nccl_status(nccl_.finish(group_), "end a group"); }
  void abort() noexcept;
  bool is_aborted() const noexcept { return aborted_; }

  Status copy(void* to, const void* from, std::size_t bytes) const;
  // Memory of the device for `bytes`, kept for the next time; its contents are not.
  enum Scratch { kInput, kOutput };
  Result<std::byte*> scratch(Scratch which, std::size_t bytes);

 private:
  const MusterNccl& nccl_;
  MusterNcclGroup* const group_;
  const int device_;
  bool aborted_ = false;
  NcclMemory scratch_[2];
  std::vector<NcclMemory> outgrown_;  // freed with the group
};

}  // namespace muster::comm
