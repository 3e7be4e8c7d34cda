#include "muster/comm/backend/native/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>
#include <sstream>

#include "muster/base/system_error.h"
#include "muster/base/units.h"

namespace muster::comm {
namespace {

Error system_failure(std::string_view what) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("[comm/shared_memory] {}: {}", what, std::strerror(errno)));
}

Result<std::span<std::byte>> map(int descriptor, std::size_t bytes) {
  void* start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (start == MAP_FAILED && errno == ENOMEM)
    return fail(ErrorCode::kUnavailable,
                fmt::format("[comm/shared_memory] {} of address space, not of memory, cannot be "
                            "had; lift the limit on it (ulimit -v unlimited)",
                            format_bytes(bytes)));
  if (start == MAP_FAILED) return system_failure(fmt::format("mmap of {} bytes", bytes));
  return std::span(static_cast<std::byte*>(start), bytes);
}

// Asked beforehand: a program that has not ignored SIGXFSZ dies of the call that exceeds the limit.
// What exists only in memory is a file as well.
Status check_file_size_limit(std::size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || bytes <= limit.rlim_cur) return ok();
  return system_error("comm/shared_memory",
                      fmt::format("{} of address space as a file, where one may have {}",
                                  format_bytes(bytes), format_bytes(limit.rlim_cur)),
                      EFBIG);
}

// Whoever maps less than it thinks, or what another process may shrink, dies of it.
bool is_sealed(int descriptor, std::size_t bytes) noexcept {
  struct stat about {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && ::fstat(descriptor, &about) == 0 &&
         static_cast<std::size_t>(about.st_size) >= bytes;
}

std::uint32_t* address_of(const std::atomic<std::uint32_t>& word) noexcept {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return reinterpret_cast<std::uint32_t*>(const_cast<std::atomic<std::uint32_t>*>(&word));
}

}  // namespace

std::string to_text(const MemoryAddress& address) {
  return fmt::format("{} {} {}", address.pid, address.descriptor, address.token);
}

std::optional<MemoryAddress> memory_address_from(std::string_view text) {
  MemoryAddress address;
  std::istringstream words{std::string(text)};
  words >> address.pid >> address.descriptor >> address.token;
  return words ? std::optional(address) : std::nullopt;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(std::size_t bytes) {
  MUSTER_TRY(check_file_size_limit(bytes));
  const int descriptor = ::memfd_create("muster", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return system_failure("memfd_create");
  // Sealed against shrinking, so that no process can make another one fault.
  const bool sized = ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 &&
                     ::fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0;
  auto mapped = sized ? map(descriptor, bytes)
                      : Result<std::span<std::byte>>(system_failure("ftruncate of a memfd"));
  if (!mapped) {
    ::close(descriptor);
    return mapped.error();
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(descriptor, *mapped));
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(int pid, int descriptor,
                                                         std::size_t bytes) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, descriptor);
  const int own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return system_failure(fmt::format("open {}", path));
  auto mapped = is_sealed(own, bytes)
                    ? map(own, bytes)
                    : fail(ErrorCode::kUnavailable,
                           fmt::format("[comm/shared_memory] {} is no shared memory of {} bytes",
                                       path, bytes));
  if (!mapped) {
    ::close(own);
    return mapped.error();
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(own, *mapped));
}

SharedMemory::~SharedMemory() {
  ::munmap(bytes_.data(), bytes_.size());
  ::close(descriptor_);
}

void SharedMemory::prefer_huge_pages(std::size_t offset, std::size_t length) noexcept {
  ::madvise(bytes_.data() + offset, length, MADV_HUGEPAGE);  // a wish: failure changes nothing
}

void SharedMemory::release(std::size_t offset, std::size_t length) noexcept {
  ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(length));
}

void wait_on(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
             Duration duration) noexcept {
  const auto nanoseconds = duration.count() < 0 ? 0 : duration.count();
  const timespec time{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, address_of(word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, address_of(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Only of a process that is gone it may be said that it died: where the call itself is refused (a
// filter that does not know it, no descriptor left), nothing is known.
Result<std::unique_ptr<ProcessWatch>> ProcessWatch::start(int pid) {
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0 && errno != ESRCH)
    return system_failure(
        fmt::format("whether process {} runs cannot be watched: pidfd_open", pid));
  return std::unique_ptr<ProcessWatch>(new ProcessWatch(pid, descriptor));
}

ProcessWatch::~ProcessWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool ProcessWatch::ended() const noexcept {
  if (descriptor_ < 0) return true;
  pollfd readable{descriptor_, POLLIN, 0};
  return ::poll(&readable, 1, 0) > 0;
}

int own_pid() noexcept { return ::getpid(); }

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

CoreSet usable_cores() noexcept {
  CoreSet cores{};
  cpu_set_t set;
  static_assert(sizeof set == sizeof cores);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) std::memcpy(cores.data(), &set, sizeof set);
  return cores;
}

}  // namespace muster::comm
