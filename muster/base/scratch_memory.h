#pragma once
// Memory that lies on a disk, in a file without a name: nothing is left of it when its last user
// ends, however that comes. The system reads pages of it as they are touched, and may write them
// and take their memory back at any time; fetch() and release() have it do so in good time.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster {

// Of what is used piece by piece, so much at a time, while the next is being read.
inline constexpr std::uint64_t kScratchWindowBytes = 16 << 20;

// Thread-safe; what is written into it is the users' affair.
class ScratchMemory {
 public:
  virtual ~ScratchMemory() = default;
  // So many bytes more, zeros, for as long as the object lives; aligned as tensors are, and next to
  // what was taken before. The disk has room for them, or it is kUnavailable.
  virtual Result<std::span<std::byte>> take(std::size_t bytes) = 0;
  // Of what was taken: will be wanted soon. Does not wait.
  virtual void fetch(std::span<const std::byte> bytes) noexcept = 0;
  // Will not be wanted soon: goes to the disk, and this process has it in memory no more until it
  // is touched again. Nothing of it is lost.
  virtual void release(std::span<const std::byte> bytes) noexcept = 0;
};

// In this folder, which exists. kUnavailable where nothing can be written there.
Result<std::unique_ptr<ScratchMemory>> create_scratch_memory(const Path& folder);

}  // namespace muster
