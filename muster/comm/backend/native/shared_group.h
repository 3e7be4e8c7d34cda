#pragma once
// The ranks of one host as each sees the others: one memory per rank, mapped by all, in which they
// meet, fail, pass messages and keep tensors.

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/comm/backend/native/address_space.h"
#include "muster/comm/backend/native/peer_memory.h"
#include "muster/comm/backend/native/shared_memory.h"
#include "muster/comm/communicator.h"
#include "muster/comm/engine/engine.h"
#include "muster/comm/engine/signature.h"

namespace muster::comm {

// Where the others find the tensor of a collective that a rank exposes.
enum class Exposure : std::uint32_t {
  kSlots,    // chunk by chunk in its slots
  kMemory,   // Flag::at: an offset in the rank's memory
  kProcess,  // Flag::at: an address in its process (PeerMemory)
};

// What a rank shows at a meeting: one line of the cache. Two, used in turn, since nobody can be two
// meetings ahead.
struct alignas(64) Flag {
  std::atomic<std::uint32_t> meeting;  // the last this rank has come to with this flag
  Exposure exposure = Exposure::kSlots;
  std::uint64_t at = 0;
  std::uint64_t check = 0;            // of what it calls: Signature::check
  std::array<std::byte, 40> payload;  // tensors that are no larger
};
static_assert(sizeof(Flag) == 64);

// A message under way, in its sender's memory.
struct alignas(64) Parcel {
  // The receiver's rank, plus 1, set by the sender once all below is there and cleared by that
  // receiver; 0: empty. No other rank reads what is below: the sender may already be writing the
  // next message there.
  std::atomic<std::uint32_t> full;
  std::uint32_t tag;
  std::uint64_t number;  // how many went before to that rank under that tag
  std::uint64_t offset;
  std::uint64_t bytes;
};
inline constexpr std::size_t kParcels = 128;

// Ranks that sleep until something has come about, or the group fails.
struct Sleepers {
  std::atomic<std::uint32_t> count;
  // Changes before they are woken: whoever has read it before it looked does not fall asleep after.
  std::atomic<std::uint32_t> wakes;
};

inline constexpr std::size_t kSlotBytes = std::size_t{512} << 10;

// The head of each rank's memory.
struct Control {
  std::uint64_t token;    // chosen at creation; who finds another one has opened the wrong memory
  CoreSet cores;          // that the rank may run on
  std::uint64_t address;  // of this head in the rank's process
  std::uint64_t reads_from;       // what the rank would have (SharedGroup::reads_from)
  std::array<Flag, 2> flags;      // by the parity of the meeting
  alignas(64) Sleepers sleepers;  // until this rank has come
  alignas(64) std::atomic<std::uint32_t> doorbell;  // rung when something changed for this rank
  alignas(64) std::atomic<std::uint32_t> left;      // this rank's communicator is gone
  std::atomic<std::uint32_t> failed;                // the three below are valid
  std::int32_t code;
  std::int32_t culprit;
  std::array<char, 1024> message;
  // 1: this rank reads or writes tensors where they lie in the others' memory (SharedAccess).
  alignas(64) std::atomic<std::uint32_t> inside;
  // Of rank 0, for all: the meetings of ranks that share cores.
  alignas(64) std::atomic<std::uint32_t> arrived;  // ranks, at all meetings so far
  alignas(64) std::atomic<std::uint32_t> opened;   // the last meeting that all have come to
  Sleepers outside;                                // until it is opened
  alignas(64) std::array<Signature, 2> calls;      // by the parity of the collective
  std::array<Parcel, kParcels> parcels;
  alignas(4096) std::array<std::byte, 2 * kSlotBytes> slots;
};

class SharedGroup {
 public:
  // Collective; three exchanges, whatever comes of it, so that all ranks end alike. `reads_from`:
  // this rank's wish.
  static Result<std::shared_ptr<SharedGroup>> create(Group group, std::size_t heap_bytes,
                                                     Clock& clock, const Exchange& exchange,
                                                     Deadline deadline,
                                                     std::size_t reads_from = kReadsFrom);
  ~SharedGroup();

  const Group& group() const noexcept { return group_; }
  Clock& clock() const noexcept { return clock_; }
  std::size_t heap_bytes() const noexcept { return heap_bytes_; }
  std::size_t wished_reads_from() const noexcept { return wished_reads_from_; }
  Control& control(Rank rank) const noexcept;
  Control& mine() const noexcept { return control(group_.rank); }
  std::byte* memory(Rank rank) const noexcept;
  // Where `bytes` lie in my memory; nothing when elsewhere.
  std::optional<std::uint64_t> offset_of(std::span<const std::byte> bytes) const noexcept;

  // From how many bytes that one rank takes of another tensors that lie elsewhere are read where
  // they do; alike on all ranks: the most that one of them wishes for, and kNoReads where the
  // system does not let each of them read every other.
  std::size_t reads_from() const noexcept { return reads_from_; }
  std::string describe_reads() const;  // for the log: whether, or why not
  const PeerMemory& process(Rank rank) const noexcept;
  // What it means that process(rank) could not be read: what stops this rank, or that one's end.
  Error why_unread(Rank rank, const Error& why, Deadline deadline) const;

  // Comes to the next meeting and waits until all have. What a rank wrote before is visible after,
  // in next_flag() as flag() of that rank.
  // At the deadline kTimeout without text whose peer is a rank that is missing (missing() has all).
  Status meet(Deadline deadline);
  Flag& next_flag() const noexcept { return mine().flags[(phase_ + 1) % 2]; }
  Flag& flag(Rank rank) const noexcept { return control(rank).flags[phase_ % 2]; }
  // Whether ranks have to share cores, so that who waits is in the way of who is waited for.
  bool crowded() const noexcept { return crowded_; }
  std::vector<Rank> missing() const;  // at the last meeting
  // For whom this rank waits: those that have not come as far as it has. Any thread.
  std::vector<Rank> awaited() const;

  // What stops this rank: its own failure, another's, or a process that ended. Cheap.
  std::optional<Error> trouble() const;
  // The same, or that somebody has left, where all are to go on.
  std::optional<Error> given_up() const;
  void fail(const Error& why, bool tell) noexcept;  // any thread
  std::optional<Error> gone(Rank rank) const;       // left or dead
  // After fail(): waits until no other rank is at tensors in my memory, and none will be any more.
  // At `until` it gives up: one may stand still in the middle of it.
  void await_rest(Deadline until) const;

  void ring(Rank rank) const noexcept;

  Result<std::uint64_t> reserve(std::size_t bytes);                  // heap, as an offset
  void give_back(std::uint64_t offset, std::size_t bytes) noexcept;  // as they were asked for
  static Result<Buffer> allocate(const std::shared_ptr<SharedGroup>& group, std::size_t bytes);

 private:
  SharedGroup(Group group, std::size_t heap_bytes, Clock& clock, std::size_t reads_from);
  Status open_peers(const std::vector<std::string>& introductions);
  void try_reads();
  void agree_on_reads() noexcept;
  int cores_of_all() const noexcept;
  Status meet_apart(Deadline deadline);
  Status meet_crowded(Deadline deadline);
  template <class Over>
  bool spin(const Over& over) const;
  template <class Over>
  Status sleep(Sleepers& sleepers, const Over& over, Deadline deadline) const;
  bool disturbed() const noexcept;
  bool come(Rank rank) const noexcept;
  std::optional<Error> anybody_gone() const;

  const Group group_;
  const std::size_t heap_bytes_;
  const std::size_t wished_reads_from_;
  Clock& clock_;
  std::vector<std::unique_ptr<SharedMemory>> memories_;   // by rank
  std::vector<std::unique_ptr<ProcessWatch>> processes_;  // by rank
  std::vector<PeerMemory> address_spaces_;                // by rank
  std::size_t reads_from_ = kNoReads;
  std::string why_no_reads_;  // where it is this rank that cannot
  bool crowded_ = false;
  std::uint32_t phase_ = 0;  // of whoever runs a collective
  mutable std::mutex mutex_;
  std::optional<Error> failure_;  // guarded by mutex_
  std::atomic<bool> failed_{false};
  AddressSpace heap_;  // guarded by mutex_
};

// While it is open this rank reads and writes tensors where they lie in the others' memory, between
// a meeting that all have come to and one that nobody leaves before all have come.
class SharedAccess {
 public:
  explicit SharedAccess(SharedGroup& group) : group_(group) {}
  ~SharedAccess() { static_cast<void>(close()); }
  SharedAccess(const SharedAccess&) = delete;
  SharedAccess& operator=(const SharedAccess&) = delete;

  Status open();   // Error: somebody has given up, whose tensor is its own again
  Status close();  // Error: somebody has meanwhile, and what was read may be anything

 private:
  SharedGroup& group_;
  bool open_ = false;
};

}  // namespace muster::comm
