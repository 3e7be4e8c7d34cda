#pragma once
// A disk on which one call goes wrong. Wraps another one. A remove_all() of a folder that fails has
// removed a part of it. Thread-safe.

#include <cstdint>
#include <mutex>
#include <optional>

#include "muster/base/files.h"

namespace muster::testing {

enum class Fault : std::uint8_t {
  kIoError,     // EIO
  kNoSpace,     // ENOSPC
  kShortWrite,  // half of the bytes, then ENOSPC; for calls other than append as kNoSpace
  kNoMemory,    // std::bad_alloc is thrown
  kPowerLoss,   // this call (but half of an append) and every later one fails
};

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(Files& real) : real_(real) {}

  // The call number `call` (0: the next) of those that change the disk fails so.
  void fail_at(std::uint64_t call, Fault fault);
  std::uint64_t calls() const;  // that change the disk, so far
  Path failed_path() const;     // of the call that failed; empty when none did

  Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) override;
  Result<std::unique_ptr<MappedFile>> map(const Path& path) override;
  Result<std::string> read(const Path& path) override;
  Result<std::string> read_up_to(const Path& path, std::size_t most) override;
  Result<std::size_t> read_at(const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) override;
  Result<std::vector<std::string>> list(const Path& folder) override;
  Status create_folders(const Path& folder) override;
  Status rename(const Path& from, const Path& to) override;
  Status link(const Path& target, const Path& at) override;
  Status remove_all(const Path& path) override;
  Status sync_folder(const Path& folder) override;
  Result<std::uint64_t> size(const Path& path) override;
  bool exists(const Path& path) override;
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;

 private:
  class File;
  // Counts a call that changes the disk; the fault that hits it.
  std::optional<Fault> count(const Path& path);
  Status change(const Path& path);  // count() for calls that know no halves
  Status alive(const Path& path) const;

  Files& real_;
  mutable std::mutex mutex_;
  std::uint64_t calls_ = 0;
  std::optional<std::uint64_t> at_;
  Fault fault_ = Fault::kIoError;
  bool down_ = false;
  Path failed_;
};

}  // namespace muster::testing
