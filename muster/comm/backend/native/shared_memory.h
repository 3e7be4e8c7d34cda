#pragma once
// The operating system's side of shared memory on Linux: anonymous files that processes map from
// each other, waiting on words in them, and noticing that a process has ended. Nothing has a name,
// so nothing is left behind.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::comm {

// How another process of this host finds a memory. `token`, which whoever created it writes at its
// beginning, tells it from any other: the same number may be another process elsewhere.
struct MemoryAddress {
  int pid = 0;
  int descriptor = 0;
  std::uint64_t token = 0;
};
std::string to_text(const MemoryAddress& address);  // "pid descriptor token"
std::optional<MemoryAddress> memory_address_from(std::string_view text);

// A memfd, mapped. Address space only: pages exist once touched. Thread-safe.
class SharedMemory {
 public:
  // kUnavailable: no such file can be had, or it is larger than one may be (RLIMIT_FSIZE).
  static Result<std::unique_ptr<SharedMemory>> create(std::size_t bytes);
  // The memory that process `pid` holds as `descriptor`. kUnavailable: it is none of ours, which
  // are sealed, or smaller.
  static Result<std::unique_ptr<SharedMemory>> open(int pid, int descriptor, std::size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> bytes() const noexcept { return bytes_; }
  int descriptor() const noexcept { return descriptor_; }

  void prefer_huge_pages(std::size_t offset, std::size_t length) noexcept;
  // Gives the whole pages in [offset, offset + length) back; they read as zeros again.
  void release(std::size_t offset, std::size_t length) noexcept;

 private:
  SharedMemory(int descriptor, std::span<std::byte> bytes)
      : descriptor_(descriptor), bytes_(bytes) {}
  int descriptor_;
  std::span<std::byte> bytes_;
};

// Sleeps while `word` is `seen`, at most for `duration`. May wake early.
void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
             Duration duration) noexcept;
void wake_all(const std::atomic<std::uint32_t>& word) noexcept;

// Tells whether a process still runs, without mistaking another for it later.
class ProcessWatch {
 public:
  // Of a process that has ended as well. kUnavailable: the system lets nobody watch it.
  static Result<std::unique_ptr<ProcessWatch>> start(int pid);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  int pid() const noexcept { return pid_; }
  bool ended() const noexcept;

 private:
  ProcessWatch(int pid, int descriptor) : pid_(pid), descriptor_(descriptor) {}
  int pid_;
  int descriptor_;  // a pidfd; -1: there was no such process any more
};

int own_pid() noexcept;
std::string boot_id();  // the same for all processes of a running host; empty where unknown

// The cores that a process may run on, a bit each; of more than 1,024 the first ones.
using CoreSet = std::array<std::uint64_t, 16>;
CoreSet usable_cores() noexcept;

}  // namespace muster::comm
