#pragma once
// Communicator: one group of ranks in one generation, ready when it exists, replaced (never
// reconfigured) when membership changes. Engines (loopback, native, …) and wrappers (deadline,
// trace, order check, fault injection) all implement it; a wrapper overrides `submit` once.
// Thread-safe. Destroying one aborts what is pending; it never waits for a peer.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/comm/op.h"
#include "muster/comm/work.h"

namespace muster::comm {

struct Group {
  Rank rank{0};
  std::int32_t size = 1;
  Generation generation{0};
};

// Memory on which operations need no copies (shared memory inside a host). Every rank allocates the
// same sizes in the same order. 64-byte aligned, zeroed; freed with the last reference.
using Buffer = std::shared_ptr<std::span<std::byte>>;

// Of such memory at a rank, where nothing else is said: address space, which costs nothing until it
// is used, but counts towards a limit on the size of files.
inline constexpr std::size_t kHeapBytes = std::size_t{64} << 30;

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual const Group& group() const noexcept = 0;

  // What the whole group calls its ranks, in their order. Of one that has not split off: 0, 1, ….
  virtual std::vector<Rank> members() const {
    std::vector<Rank> ranks(static_cast<std::size_t>(group().size), Rank{0});
    for (std::int32_t rank = 0; rank < group().size; ++rank)
      ranks[static_cast<std::size_t>(rank)] = Rank{rank};
    return ranks;
  }

  // Starts `op`; never blocks on a peer. The Work ends in success or in one error that names the
  // peer. After abort() every submission ends at once with its reason.
  virtual Work submit(Op op, const OpOptions& options) = 0;

  // Collective. Ranks of equal colour form a group, ordered by key, then by rank. Its errors name
  // ranks of the group that was split.
  virtual Result<std::shared_ptr<Communicator>> split(int color, int key) = 0;

  // Ends all pending Work with `why`, here and in the parts that have split off; callable from any
  // thread, returns at once.
  virtual void abort(Error why) noexcept = 0;

  // Collective in order, not in time. Any memory works as a tensor; this kind is fastest.
  virtual Result<Buffer> allocate(std::size_t bytes) = 0;
};

}  // namespace muster::comm
