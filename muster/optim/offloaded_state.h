#pragma once
// An optimizer's state that lies on a disk instead of in memory (ZeRO-Infinity: Rajbhandari et al.,
// SC 2021): tensors over scratch memory, which may be used as any others, at any time. The
// optimizer says which parameters it is about to update and which it has updated. Thread-safe but
// for zeros_like().

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "muster/base/result.h"
#include "muster/base/scratch_memory.h"

namespace muster::optim {

class OffloadedState {
 public:
  // `window`: bytes of state that are in memory at a time, where no parameter has more.
  explicit OffloadedState(std::shared_ptr<ScratchMemory> scratch,
                          std::uint64_t window = kScratchWindowBytes)
      : scratch_(std::move(scratch)), window_(window) {}

  // For a tensor of the host. Where there is no room, one without elements, and room() says why.
  torch::Tensor zeros_like(const torch::Tensor& parameter);
  const Status& room() const noexcept { return room_; }

  std::uint64_t window() const noexcept { return window_; }
  void fetch(std::span<const torch::Tensor> state) noexcept;
  void release(std::span<const torch::Tensor> state) noexcept;

 private:
  const std::shared_ptr<ScratchMemory> scratch_;
  const std::uint64_t window_;
  Status room_ = ok();
};

}  // namespace muster::optim
