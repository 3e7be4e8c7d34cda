#pragma once
// The ranks of one host as each sees the others: one memory per rank, mapped by all, in which they
// meet, fail, pass messages and keep tensors.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/backend/native/shared_memory.h"
#include "muster/comm/communicator.h"
#include "muster/comm/engine/engine.h"
#include "muster/comm/engine/signature.h"

namespace muster::comm {

inline constexpr std::int64_t kPrivate = -1;

// One collective as a rank publishes it. Two, used in turn: nobody can be two collectives ahead.
struct alignas(64) Line {
  std::int64_t offset = kPrivate;  // of the tensor in the rank's memory
  Signature signature;             // whose check is in the first line of the cache, with the offset
};

// A message under way, in its sender's memory.
struct alignas(64) Parcel {
  std::atomic<std::uint32_t> full;  // set by the sender, cleared by the receiver
  std::int32_t to;
  std::uint32_t tag;
  std::uint64_t number;  // how many went before to that rank under that tag
  std::uint64_t offset;
  std::uint64_t bytes;
};
inline constexpr std::size_t kParcels = 128;

inline constexpr std::size_t kSlotBytes = std::size_t{512} << 10;

// The head of each rank's memory.
struct Control {
  std::uint64_t token;  // chosen at creation; who finds another one has opened the wrong memory
  alignas(64) std::atomic<std::uint32_t> phase;     // meetings this rank has come to
  std::atomic<std::uint32_t> sleepers;              // on phase
  alignas(64) std::atomic<std::uint32_t> doorbell;  // rung when something changed for this rank
  alignas(64) std::atomic<std::uint32_t> left;      // this rank's communicator is gone
  std::atomic<std::uint32_t> failed;                // the three below are valid
  std::int32_t code;
  std::int32_t culprit;
  std::array<char, 1024> message;
  std::array<Line, 2> lines;
  std::array<Parcel, kParcels> parcels;
  alignas(4096) std::array<std::byte, 2 * kSlotBytes> slots;
};

class SharedGroup {
 public:
  // Collective; two exchanges whatever happens, so that all ranks end alike.
  static Result<std::shared_ptr<SharedGroup>> create(Group group, std::size_t heap_bytes,
                                                     Clock& clock, const Exchange& exchange,
                                                     Deadline deadline);
  ~SharedGroup();

  const Group& group() const noexcept { return group_; }
  Clock& clock() const noexcept { return clock_; }
  std::size_t heap_bytes() const noexcept { return heap_bytes_; }
  Control& control(Rank rank) const noexcept;
  Control& mine() const noexcept { return control(group_.rank); }
  std::byte* memory(Rank rank) const noexcept;
  // Where `bytes` lie in my memory; kPrivate when elsewhere.
  std::int64_t offset_of(std::span<const std::byte> bytes) const noexcept;

  // Comes to the next meeting and waits until all have. What a rank wrote before is visible after.
  // At the deadline kTimeout without text whose peer is a rank that is missing (missing() has all).
  Status meet(Deadline deadline);
  std::vector<Rank> missing() const;  // at the last meeting

  // What stops this rank: its own failure, another's, or a process that ended. Cheap.
  std::optional<Error> trouble() const;
  void fail(const Error& why, bool tell) noexcept;  // any thread
  std::optional<Error> gone(Rank rank) const;       // left or dead

  void ring(Rank rank) const noexcept;

  Result<std::uint64_t> reserve(std::size_t bytes);  // heap, as an offset; never given back
  static Result<Buffer> allocate(const std::shared_ptr<SharedGroup>& group, std::size_t bytes);

 private:
  SharedGroup(Group group, std::size_t heap_bytes, Clock& clock)
      : group_(group), heap_bytes_(heap_bytes), clock_(clock) {}
  Status open_peers(const std::vector<std::string>& introductions);
  Status wait_for(Rank rank, Deadline deadline);
  bool come(Rank rank) const noexcept;
  std::optional<Error> anybody_gone() const;

  const Group group_;
  const std::size_t heap_bytes_;
  Clock& clock_;
  std::vector<std::unique_ptr<SharedMemory>> memories_;   // by rank
  std::vector<std::unique_ptr<ProcessWatch>> processes_;  // by rank
  bool may_spin_ = false;
  std::uint32_t phase_ = 0;  // of the collectives' thread
  mutable std::mutex mutex_;
  std::optional<Error> failure_;  // guarded by mutex_
  std::atomic<bool> failed_{false};
  std::size_t reserved_ = 0;  // guarded by mutex_
};

}  // namespace muster::comm
