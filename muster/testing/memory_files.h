#pragma once
// A disk in memory that can lose its power: what was not forced to it is then gone or torn.
// Thread-safe.

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "muster/base/files.h"

namespace muster::testing {

class MemoryFiles final : public Files {
 public:
  // What a crash leaves of bytes and names that no fsync has reached.
  enum class Crash : std::uint8_t {
    kLosesUnsynced,  // nothing
    kTearsUnsynced,  // every name, but of each file only the first half of what was not synced
    kKeepsRenames,   // the names that rename gave, none that open or create_folders gave
  };
  void crash(Crash how);

  Result<std::unique_ptr<WritableFile>> open(const Path& path, Open how) override;
  Result<std::unique_ptr<MappedFile>> map(const Path& path) override;
  Result<std::string> read(const Path& path) override;
  Result<std::string> read_up_to(const Path& path, std::size_t most) override;
  Result<std::size_t> read_at(const Path& path, std::uint64_t offset,
                              std::span<std::byte> into) override;
  Result<std::vector<std::string>> list(const Path& of) override;
  Status create_folders(const Path& folder) override;
  Status rename(const Path& from, const Path& to) override;
  Status link(const Path& target, const Path& at) override;
  Status remove_all(const Path& path) override;
  Status sync_folder(const Path& folder) override;
  Result<std::uint64_t> size(const Path& path) override;
  bool exists(const Path& path) override;
  Result<std::unique_ptr<FileLock>> lock(const Path& path) override;

 private:
  struct Node {  // a file's content, under whatever name
    std::string data;
    std::string durable;
  };
  using Nodes = std::map<Path, std::shared_ptr<Node>>;  // a null pointer: a folder
  class File;
  class Lock;

  Result<std::shared_ptr<Node>> find(const Path& path) const;
  bool is_folder(const Path& path) const;
  static std::size_t torn_size(const Node& node);

  mutable std::mutex mutex_;
  Nodes names_, durable_names_;
  std::set<Path> locked_;
  std::set<Path> renamed_;  // since the last sync of their folder
};

}  // namespace muster::testing
