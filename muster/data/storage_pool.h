#pragma once
// Blocks of one size for batches, recycled: a stream allocates only until as many exist as are in
// use at once. Blocks may outlive the pool. Thread-safe.

#include <cstddef>
#include <memory>

#include "muster/base/round_up.h"

namespace muster::data {

inline constexpr std::size_t kTensorAlignment = 64;

// `bytes`, and so every tensor that starts at a multiple of it, rounded up to the alignment.
constexpr std::size_t align_up(std::size_t bytes) noexcept {
  return round_up(bytes, kTensorAlignment);
}

class StoragePool {
 public:
  explicit StoragePool(std::size_t block_bytes);

  // A block with undefined content; goes back when the last copy of the pointer is gone.
  std::shared_ptr<std::byte> take();

  std::size_t allocated() const;  // blocks, ever: for tests

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::data
