#include "muster/base/scratch_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "muster/base/round_up.h"
#include "muster/base/system_error.h"
#include "muster/base/unique_fd.h"
#include "muster/base/units.h"

namespace muster {
namespace {

constexpr std::size_t kCacheLine = 64;             // as libtorch's allocator
constexpr std::size_t kPages = 64 << 10;           // a multiple of every page size
constexpr std::size_t kLeastExtent = 8 << 20;      // so that small pieces share one
constexpr mode_t kOwnerAlone = S_IRUSR | S_IWUSR;  // it may hold what a model has learnt

Error scratch_error(std::string_view call, std::string_view subject, int number) {
  return system_error(fmt::format("scratch/{}", call), subject, number);
}

// Not every file system knows files that never had a name.
Result<UniqueFd> open_nameless(const Path& folder) {
  UniqueFd nameless(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerAlone));
  if (nameless) return nameless;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    return scratch_error("open", folder.native(), errno);
  const Path path = fresh_name(folder / "scratch");
  UniqueFd named(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, kOwnerAlone));
  if (!named) return scratch_error("open", path.native(), errno);
  if (::unlink(path.c_str()) != 0) return scratch_error("unlink", path.native(), errno);
  return named;
}

// A mapped part of the file.
struct Extent {
  std::span<std::byte> bytes;
  std::size_t offset = 0;  // in the file
  std::size_t taken = 0;
};

class SystemScratchMemory final : public ScratchMemory {
 public:
  SystemScratchMemory(UniqueFd fd, Path folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}
  SystemScratchMemory(const SystemScratchMemory&) = delete;
  SystemScratchMemory& operator=(const SystemScratchMemory&) = delete;
  ~SystemScratchMemory() override {
    for (const auto& [begin, extent] : extents_) ::munmap(extent.bytes.data(), extent.bytes.size());
  }

  Result<std::span<std::byte>> take(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const std::size_t size = round_up(std::max<std::size_t>(bytes, 1), kCacheLine);
    if (!newest_ || newest_->bytes.size() - newest_->taken < size) MUSTER_TRY(grow(size));
    const auto piece = newest_->bytes.subspan(newest_->taken, bytes);
    newest_->taken += size;
    return piece;
  }

  void fetch(std::span<const std::byte> bytes) noexcept override {
    if (const Pages pages = pages_of(bytes); !pages.bytes.empty())
      ::madvise(pages.bytes.data(), pages.bytes.size(), MADV_WILLNEED);
  }

  // Nothing of a shared mapping is lost, so pages in which others lie as well may go too. Only what
  // the mapping has let go of counts as written to the file.
  void release(std::span<const std::byte> bytes) noexcept override {
    const Pages pages = pages_of(bytes);
    if (pages.bytes.empty()) return;
    ::madvise(pages.bytes.data(), pages.bytes.size(), MADV_DONTNEED);
    ::sync_file_range(fd_.get(), static_cast<off_t>(pages.offset),
                      static_cast<off_t>(pages.bytes.size()), SYNC_FILE_RANGE_WRITE);
  }

 private:
  struct Pages {
    std::span<std::byte> bytes;
    std::size_t offset = 0;  // in the file
  };

  // Room is made at once: a disk that is full later would end the process.
  Status grow(std::size_t bytes) {
    const std::size_t size = round_up(std::max(bytes, kLeastExtent), kPages);
    int error = 0;
    do {
      error = ::posix_fallocate(fd_.get(), static_cast<off_t>(end_), static_cast<off_t>(size));
    } while (error == EINTR);
    if (error != 0) return scratch_error("allocate", subject(size), error);
    void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(),
                            static_cast<off_t>(end_));
    if (at == MAP_FAILED) return scratch_error("mmap", subject(size), errno);
    const std::span extent(static_cast<std::byte*>(at), size);
    newest_ = &extents_.emplace(extent.data(), Extent{extent, end_, 0}).first->second;
    end_ += size;
    return ok();
  }

  std::string subject(std::size_t more) const {
    return fmt::format("{} in {}, beside {}", format_bytes(more), folder_.native(),
                       format_bytes(end_));
  }

  // Those that hold the bytes, counted from where their extent begins.
  Pages pages_of(std::span<const std::byte> bytes) noexcept {
    const std::lock_guard lock(mutex_);
    auto after = extents_.upper_bound(bytes.data());
    if (bytes.empty() || after == extents_.begin()) return {};
    const Extent& extent = std::prev(after)->second;
    const auto begin = static_cast<std::size_t>(bytes.data() - extent.bytes.data());
    if (begin + bytes.size() > extent.bytes.size()) return {};
    const std::size_t first = begin / kPages * kPages;
    const std::size_t last = round_up(begin + bytes.size(), kPages);
    return {extent.bytes.subspan(first, last - first), extent.offset + first};
  }

  const UniqueFd fd_;
  const Path folder_;
  std::mutex mutex_;
  std::map<const std::byte*, Extent, std::less<>> extents_;  // by where they begin
  Extent* newest_ = nullptr;
  std::size_t end_ = 0;  // of the file
};

}  // namespace

Result<std::unique_ptr<ScratchMemory>> create_scratch_memory(const Path& folder) {
  MUSTER_ASSIGN(UniqueFd fd, open_nameless(folder));
  return std::make_unique<SystemScratchMemory>(std::move(fd), folder);
}

}  // namespace muster
