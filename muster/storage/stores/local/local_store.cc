#include "muster/storage/stores/local/local_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

namespace muster::storage {
namespace {

constexpr std::string_view kUnfinished = ".unfinished";

class LocalStore final : public ObjectStore {
 public:
  LocalStore(Files& files, Path root) : files_(files), root_(std::move(root)) {}

  Status put(std::string_view name, std::span<const std::byte> bytes) override {
    MUSTER_TRY(check_name(name));
    const Path path = root_ / name;
    const std::lock_guard lock(mutex_);  // two puts of one name share the unfinished file
    MUSTER_TRY(files_.create_folders(path.parent_path()));
    Path fresh = path;
    fresh += kUnfinished;
    MUSTER_TRY(write(fresh, bytes));
    MUSTER_TRY(files_.rename(fresh, path));
    return sync_folders_of(path);
  }

  Result<std::size_t> read(std::string_view name, std::uint64_t offset,
                           std::span<std::byte> into) override {
    MUSTER_TRY(check_name(name));
    return files_.read_at(root_ / name, offset, into);
  }

  Result<std::vector<ObjectInfo>> list(std::string_view prefix) override {
    std::vector<ObjectInfo> infos;
    MUSTER_TRY(list_folder("", prefix, infos));
    std::sort(infos.begin(), infos.end(),
              [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
    return infos;
  }

  Status remove(std::string_view name) override {
    MUSTER_TRY(check_name(name));
    const Path path = root_ / name;
    if (!files_.size(path)) return ok();  // nothing there, or a folder of other objects
    MUSTER_TRY(files_.remove_all(path));
    return files_.sync_folder(path.parent_path());
  }

 private:
  static Status check_name(std::string_view name) {
    if (!name.ends_with(kUnfinished)) return check_object_name(name);
    return fail(ErrorCode::kInvalid,
                fmt::format("[storage] `{}`: names may not end with {}", name, kUnfinished));
  }

  Status write(const Path& path, std::span<const std::byte> bytes) {
    MUSTER_ASSIGN(const auto file, files_.open(path, Files::Open::kTruncate));
    MUSTER_TRY(file->append(bytes));
    MUSTER_TRY(file->sync());
    return file->close();
  }

  // The put may have made folders; their names are to last too.
  Status sync_folders_of(const Path& path) {
    for (Path folder = path.parent_path();; folder = folder.parent_path()) {
      MUSTER_TRY(files_.sync_folder(folder));
      if (folder == root_ || folder.empty() || folder == folder.parent_path()) return ok();
    }
  }

  // `folder`: "" or "a/b/".
  Status list_folder(const std::string& folder, std::string_view prefix,
                     std::vector<ObjectInfo>& into) {
    const auto names = files_.list(root_ / folder);
    if (!names && names.error().code == ErrorCode::kNotFound) return ok();
    if (!names) return names.error();
    for (const std::string& entry : *names) {
      const std::string name = folder + entry;
      const auto size = files_.size(root_ / name);
      if (!size) {
        MUSTER_TRY(list_below(name + "/", prefix, into));
      } else if (name.starts_with(prefix) && !name.ends_with(kUnfinished)) {
        into.push_back({name, *size});
      }
    }
    return ok();
  }

  Status list_below(const std::string& folder, std::string_view prefix,
                    std::vector<ObjectInfo>& into) {
    const bool may_match = folder.starts_with(prefix) || prefix.starts_with(folder);
    return may_match ? list_folder(folder, prefix, into) : ok();
  }

  Files& files_;
  const Path root_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<ObjectStore> create_local_store(Files& files, Path root) {
  return std::make_unique<LocalStore>(files, std::move(root));
}

}  // namespace muster::storage
