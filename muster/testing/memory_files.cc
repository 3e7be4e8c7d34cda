#include "muster/testing/memory_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "muster/base/system_error.h"

namespace muster::testing {
namespace {

Error memory_error(std::string_view call, const Path& path, int number) {
  return system_error(std::string("files/") + std::string(call), path.native(), number);
}

bool lies_in(const Path& path, const Path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

class Mapped final : public MappedFile {
 public:
  explicit Mapped(std::string data) : data_(std::move(data)) {}
  std::span<const std::byte> bytes() const noexcept override {
    return std::as_bytes(std::span(data_));
  }

 private:
  const std::string data_;
};

}  // namespace

class MemoryFiles::File final : public WritableFile {
 public:
  File(std::mutex& mutex, std::shared_ptr<Node> node) : mutex_(mutex), node_(std::move(node)) {}
  Status append(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex_);
    node_->data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return ok();
  }
  Status sync() override {
    const std::lock_guard lock(mutex_);
    node_->durable = node_->data;
    return ok();
  }
  Status close() override { return ok(); }

 private:
  std::mutex& mutex_;
  std::shared_ptr<Node> node_;
};

class MemoryFiles::Lock final : public FileLock {
 public:
  Lock(MemoryFiles& files, Path path) : files_(files), path_(std::move(path)) {}
  ~Lock() override {
    const std::lock_guard lock(files_.mutex_);
    files_.locked_.erase(path_);
  }

 private:
  MemoryFiles& files_;
  const Path path_;
};

void MemoryFiles::crash(Crash how) {
  const std::lock_guard lock(mutex_);
  if (how == Crash::kKeepsRenames) {
    for (const Path& path : renamed_) {
      if (const auto found = names_.find(path); found != names_.end())
        durable_names_.insert(*found);
    }
  }
  if (how != Crash::kTearsUnsynced) {
    // A name is reachable only below folders that are; folders come before what is in them.
    std::erase_if(durable_names_, [this](const auto& entry) {
      const Path parent = entry.first.parent_path();
      return !parent.empty() && parent != entry.first.root_path() &&
             !durable_names_.contains(parent);
    });
    names_ = durable_names_;
  }
  for (auto& [path, node] : names_) {
    if (!node) continue;
    const std::size_t kept = how == Crash::kTearsUnsynced ? torn_size(*node) : node->durable.size();
    if (kept > node->durable.size()) node->durable = node->data.substr(0, kept);
    node->data = node->durable;
  }
  durable_names_ = names_;
  renamed_.clear();
}

// Half of what was written since the last sync.
std::size_t MemoryFiles::torn_size(const Node& node) {
  const std::size_t synced = node.durable.size();
  return node.data.size() > synced ? synced + (node.data.size() - synced) / 2 : synced;
}

Result<std::shared_ptr<MemoryFiles::Node>> MemoryFiles::find(const Path& path) const {
  const auto found = names_.find(path);
  if (found == names_.end()) return memory_error("open", path, ENOENT);
  if (!found->second) return memory_error("open", path, EISDIR);
  return found->second;
}

bool MemoryFiles::is_folder(const Path& path) const {
  const auto found = names_.find(path);
  return path.empty() || path == path.root_path() || (found != names_.end() && !found->second);
}

Result<std::unique_ptr<WritableFile>> MemoryFiles::open(const Path& path, Open how) {
  const std::lock_guard lock(mutex_);
  if (!is_folder(path.parent_path())) return memory_error("open", path, ENOENT);
  if (is_folder(path)) return memory_error("open", path, EISDIR);
  std::shared_ptr<Node>& node = names_[path];
  if (node && (how == Open::kExclusive || how == Open::kSecret))
    return memory_error("open", path, EEXIST);
  if (!node) node = std::make_shared<Node>();
  if (how == Open::kTruncate) node->data.clear();
  return std::make_unique<File>(mutex_, node);
}

Result<std::unique_ptr<MappedFile>> MemoryFiles::map(const Path& path) {
  MUSTER_ASSIGN(std::string data, read(path));
  return std::make_unique<Mapped>(std::move(data));
}

Result<std::string> MemoryFiles::read(const Path& path) {
  const std::lock_guard lock(mutex_);
  MUSTER_ASSIGN(const auto node, find(path));
  return node->data;
}

Result<std::string> MemoryFiles::read_up_to(const Path& path, std::size_t most) {
  MUSTER_ASSIGN(const std::string text, read(path));
  return text.substr(0, most);
}

Result<std::size_t> MemoryFiles::read_at(const Path& path, std::uint64_t offset,
                                         std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  MUSTER_ASSIGN(const auto node, find(path));
  if (offset >= node->data.size()) return std::size_t{0};
  const std::size_t count = std::min<std::size_t>(into.size(), node->data.size() - offset);
  std::memcpy(into.data(), node->data.data() + offset, count);
  return count;
}

Result<std::vector<std::string>> MemoryFiles::list(const Path& of) {
  const std::lock_guard lock(mutex_);
  const Path folder = of.has_filename() ? of : of.parent_path();  // "a/" is "a"
  if (!is_folder(folder)) return memory_error("list", folder, ENOENT);
  std::vector<std::string> names;
  for (const auto& [path, node] : names_) {
    if (path.parent_path() == folder) names.push_back(path.filename().native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Status MemoryFiles::create_folders(const Path& folder) {
  const std::lock_guard lock(mutex_);
  Path path;
  for (const Path& part : folder) {
    path /= part;
    if (path == path.root_path()) continue;
    const auto [entry, fresh] = names_.try_emplace(path, nullptr);
    if (!fresh && entry->second) return memory_error("mkdir", path, ENOTDIR);
  }
  return ok();
}

Status MemoryFiles::rename(const Path& from, const Path& to) {
  const std::lock_guard lock(mutex_);
  MUSTER_ASSIGN(names_[to], find(from));
  names_.erase(from);
  renamed_.insert(to);
  return ok();
}

Status MemoryFiles::link(const Path& target, const Path& at) {
  const std::lock_guard lock(mutex_);
  auto node = std::make_shared<Node>();
  node->data = node->durable = target.native();
  names_[at] = std::move(node);
  return ok();
}

Status MemoryFiles::remove_all(const Path& path) {
  const std::lock_guard lock(mutex_);
  std::erase_if(names_, [&](const auto& entry) { return lies_in(entry.first, path); });
  return ok();
}

Status MemoryFiles::sync_folder(const Path& folder) {
  const std::lock_guard lock(mutex_);
  if (!is_folder(folder)) return memory_error("open", folder, ENOENT);
  const auto inside = [&](const auto& entry) { return entry.first.parent_path() == folder; };
  std::erase_if(durable_names_, inside);
  std::erase_if(renamed_, [&](const Path& path) { return path.parent_path() == folder; });
  std::copy_if(names_.begin(), names_.end(), std::inserter(durable_names_, durable_names_.end()),
               inside);
  return ok();
}

Result<std::uint64_t> MemoryFiles::size(const Path& path) {
  const std::lock_guard lock(mutex_);
  MUSTER_ASSIGN(const auto node, find(path));
  return node->data.size();
}

bool MemoryFiles::exists(const Path& path) {
  const std::lock_guard lock(mutex_);
  return is_folder(path) || names_.contains(path);
}

Result<std::unique_ptr<FileLock>> MemoryFiles::lock(const Path& path) {
  MUSTER_TRY(open(path, Open::kAppend));
  const std::lock_guard lock(mutex_);
  if (!locked_.insert(path).second) return std::unique_ptr<FileLock>();
  return std::make_unique<Lock>(*this, path);
}

}  // namespace muster::testing
