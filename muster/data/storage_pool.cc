#include "muster/data/storage_pool.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace muster::data {
namespace {

struct AlignedDelete {
  void operator()(std::byte* block) const noexcept {
    ::operator delete (block, std::align_val_t{kTensorAlignment});
  }
};
using Block = std::unique_ptr<std::byte, AlignedDelete>;

}  // namespace

struct StoragePool::State {
  explicit State(std::size_t bytes) : block_bytes(std::max(bytes, kTensorAlignment)) {}

  Block take() {
    const std::lock_guard lock(mutex);
    if (!free.empty()) {
      Block block = std::move(free.back());
      free.pop_back();
      return block;
    }
    // Room for every block to come back, so that giving back never allocates.
    free.reserve(++allocated);
    return Block(
        static_cast<std::byte*>(::operator new (block_bytes, std::align_val_t{kTensorAlignment})));
  }

  void give_back(Block block) noexcept {
    const std::lock_guard lock(mutex);
    free.push_back(std::move(block));
  }

  const std::size_t block_bytes;
  mutable std::mutex mutex;
  std::vector<Block> free;    // guarded by mutex
  std::size_t allocated = 0;  // guarded by mutex
};

StoragePool::StoragePool(std::size_t block_bytes) : state_(std::make_shared<State>(block_bytes)) {}

std::shared_ptr<std::byte> StoragePool::take() {
  Block block = state_->take();
  return {block.release(),
          [state = state_](std::byte* taken) noexcept { state->give_back(Block(taken)); }};
}

std::size_t StoragePool::allocated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->allocated;
}

}  // namespace muster::data
