#pragma once
// A copy of tensors, made block by block by as many threads as care to help.

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "muster/base/tensor_view.h"

namespace muster::checkpoint {

// Memory that is kept from one snapshot to the next, untouched until it is written to: the first
// touch of a page costs as much as copying it.
class SnapshotMemory {
 public:
  std::span<std::byte> take(std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* bytes) const;
  };
  std::unique_ptr<std::byte[], Free> bytes_;
  std::size_t capacity_ = 0;
};

// Any number of threads may call finish(), each of which copies; the tensors and the memory outlive
// the copy.
class SnapshotCopy {
 public:
  // Makes `tensors` point into the memory, where their bytes will be.
  SnapshotCopy(SnapshotMemory& memory, const std::vector<std::vector<NamedTensor>*>& tensor_lists);

  void finish() noexcept;  // copies what nobody has begun, and waits for the rest: blocks

 private:
  struct Block {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::atomic<std::size_t> begun_ = 0, done_ = 0;
};

}  // namespace muster::checkpoint
