#include "muster/checkpoint/snapshot.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "muster/base/round_up.h"

namespace muster::checkpoint {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
constexpr std::size_t kBufferAlignment = 64;

std::size_t padded(std::size_t bytes) { return round_up(bytes, kBufferAlignment); }

}  // namespace

void SnapshotMemory::Free::operator()(std::byte* bytes) const {
  ::operator delete[](bytes, std::align_val_t{kBufferAlignment});
}

std::span<std::byte> SnapshotMemory::take(std::size_t bytes) {
  if (bytes > capacity_) {
    bytes_.reset();  // before the new one, or there would be two
    capacity_ = 0;
    bytes_.reset(
        static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{kBufferAlignment})));
    capacity_ = bytes;
  }
  return {bytes_.get(), bytes};
}

SnapshotCopy::SnapshotCopy(SnapshotMemory& memory,
                           const std::vector<std::vector<NamedTensor>*>& tensor_lists) {
  std::size_t total = 0;
  for (const auto* tensors : tensor_lists) {
    for (const NamedTensor& tensor : *tensors) total += padded(tensor.tensor.bytes.size());
  }
  std::span<std::byte> left = memory.take(total);
  for (auto* tensors : tensor_lists) {
    for (auto& [name, tensor] : *tensors) {
      const std::span<const std::byte> from = tensor.bytes;
      tensor.bytes = left.first(from.size());
      left = left.subspan(padded(from.size()));
      for (std::size_t at = 0; at < from.size(); at += kBlockBytes) {
        blocks_.push_back(
            {from.data() + at, tensor.bytes.data() + at, std::min(kBlockBytes, from.size() - at)});
      }
    }
  }
}

void SnapshotCopy::finish() noexcept {
  for (std::size_t i = begun_.fetch_add(1, std::memory_order_relaxed); i < blocks_.size();
       i = begun_.fetch_add(1, std::memory_order_relaxed)) {
    std::memcpy(blocks_[i].to, blocks_[i].from, blocks_[i].size);
    done_.fetch_add(1, std::memory_order_release);
    done_.notify_all();
  }
  for (std::size_t done = done_.load(std::memory_order_acquire); done != blocks_.size();
       done = done_.load(std::memory_order_acquire))
    done_.wait(done, std::memory_order_acquire);
}

}  // namespace muster::checkpoint
