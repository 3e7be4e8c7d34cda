#pragma once
// Memory of another process of this host, read where it lies: one copy by the kernel, in which that
// process has no part (process_vm_readv, "CMA"). The system lets do so who may attach to it as a
// debugger; Yama (kernel.yama.ptrace_scope), a container's filter of calls or another user
// namespace may forbid it, and no process here lifts that for the others.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "muster/base/result.h"

namespace muster::comm {

// From so many bytes that one rank takes of another, tensors that are not from allocate() are read
// where they lie: below, the call and looking up every page cost more than the second copy, which
// the caches serve.
inline constexpr std::size_t kReadsFrom = std::size_t{64} << 10;
inline constexpr std::size_t kNoReads = std::numeric_limits<std::size_t>::max();

// A plain value. Thread-safe.
class PeerMemory {
 public:
  // Of process `pid`, where `token` lies at `mark` as long as it is the one that is meant. Each
  // read looks there as well: the number of one that has ended may be another's by now.
  PeerMemory(int pid, const std::byte* mark, std::uint64_t token)
      : pid_(pid), mark_(mark), token_(token) {}

  // Copies what lies at `from` there, an address of that process, as many bytes as `to` has.
  // kNotFound: the process has ended, or is about to. kUnavailable: it may not be read, or has no
  // memory there that could be. After an error what `to` holds is undefined.
  Status read(const std::byte* from, std::span<std::byte> to) const;
  // Whether its memory may be read at all.
  Status reach() const { return read(mark_, {}); }
  // Whether memory at both ends of `bytes`, there, is of a kind that can be read: a driver's, as
  // where a device copies from by itself, is not.
  bool can_read(std::span<const std::byte> bytes) const;

 private:
  int pid_;
  const std::byte* mark_;
  std::uint64_t token_;
};

}  // namespace muster::comm
