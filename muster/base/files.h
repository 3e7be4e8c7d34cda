#pragma once
// The seam to the file system. Everything that touches a disk is given one of these: tests break
// any call of it, the simulator keeps files in memory. Thread-safe. Every error names the path, the
// call and the system's reason; a full disk is kUnavailable, a missing file kNotFound.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster {

using Path = std::filesystem::path;

// A file opened for writing, at its end. One thread at a time. Closing without sync() promises
// nothing about what a crash leaves.
class WritableFile {
 public:
  virtual ~WritableFile() = default;                            // closes, drops errors
  virtual Status append(std::span<const std::byte> bytes) = 0;  // all, or an error
  virtual Status sync() = 0;  // fsync: data and length are on the disk
  virtual Status close() = 0;
};

// Bytes of a file mapped read-only, unchanged for as long as the object lives. Thread-safe.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const noexcept = 0;
};

// Held until the object goes or its process ends, however that comes. The file then holds the
// process's number.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Files {
 public:
  enum class Open : std::uint8_t {
    kTruncate,
    kAppend,
    kExclusive,  // fails where the file exists
    kSecret,     // likewise, and only its owner may read it
  };

  virtual ~Files() = default;
  virtual Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) = 0;
  virtual Result<std::unique_ptr<MappedFile>> map(const Path& path) = 0;  // no pipe, no device
  // To the end, of pipes and devices too; kTimeout where one of those is silent for 30 s.
  virtual Result<std::string> read(const Path& path) = 0;
  virtual Result<std::string> read_up_to(const Path& path,
                                         std::size_t most) = 0;  // the same, but no more bytes
  virtual Result<std::size_t> read_at(
      const Path& path, std::uint64_t offset,
      std::span<std::byte> into) = 0;  // bytes read; short at the end
  virtual Result<std::vector<std::string>> list(const Path& folder) = 0;  // names, sorted
  virtual Status create_folders(const Path& folder) = 0;
  virtual Status rename(const Path& from, const Path& to) = 0;  // atomic; replaces `to`
  virtual Status link(const Path& target, const Path& at) = 0;  // symbolic, replaced atomically
  virtual Status remove_all(const Path& path) = 0;              // fine when it does not exist
  virtual Status sync_folder(const Path& folder) = 0;           // makes names in it durable
  virtual Result<std::uint64_t> size(const Path& path) = 0;     // of a file, in bytes
  virtual bool exists(const Path& path) = 0;
  // Excludes every other lock of the file, which is made if need be; null while another is held.
  // Never waits.
  virtual Result<std::unique_ptr<FileLock>> lock(const Path& path) = 0;
};

// The machine's file system. Lives as long as the process.
Files& system_files() noexcept;

// Beside it, to be renamed to it once whole; nobody else has it, however many make one. Any thread.
Path fresh_name(const Path& path);

// Writes a whole file so that a crash leaves the old one or the new one: temporary name, fsync,
// rename, fsync of the folder. One writer a path at a time.
Status write_atomically(Files& files, const Path& path, std::string_view text);

}  // namespace muster
