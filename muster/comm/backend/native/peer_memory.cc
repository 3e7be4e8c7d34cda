#include "muster/comm/backend/native/peer_memory.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace muster::comm {
namespace {

// An iovec has no const, also where it is only read.
iovec part_of(const void* start, std::size_t bytes) noexcept {
  return {const_cast<void*>(start), bytes};
}

Error cannot_read(int pid, int number) {
  return fail(number == ESRCH ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
              fmt::format("[comm/peer_memory] memory of process {} cannot be read: {}", pid,
                          std::strerror(number)));
}

// What the call says of one that has ended as well: where another has its number, for example.
Status judge(int pid, ssize_t copied, std::size_t wanted, bool same) {
  if (copied < 0) return cannot_read(pid, errno);
  if (static_cast<std::size_t>(copied) < wanted) return cannot_read(pid, EFAULT);
  return same ? ok() : Status(cannot_read(pid, ESRCH));
}

}  // namespace

// One call sees one address space from beginning to end, so the token vouches for the rest.
Status PeerMemory::read(const std::byte* from, std::span<std::byte> to) const {
  std::uint64_t token = 0;
  const std::array here{part_of(&token, sizeof token), part_of(to.data(), to.size())};
  const std::array there{part_of(mark_, sizeof token), part_of(from, to.size())};
  const ssize_t copied =
      ::process_vm_readv(pid_, here.data(), here.size(), there.data(), there.size(), 0);
  return judge(pid_, copied, sizeof token + to.size(), token == token_);
}

bool PeerMemory::can_read(std::span<const std::byte> bytes) const {
  if (bytes.empty()) return true;
  std::array<std::byte, 2> ends{};
  const std::array here{part_of(ends.data(), ends.size())};
  const std::array there{part_of(bytes.data(), 1), part_of(&bytes.back(), 1)};
  return ::process_vm_readv(pid_, here.data(), here.size(), there.data(), there.size(), 0) ==
         static_cast<ssize_t>(ends.size());
}

}  // namespace muster::comm
