#include "muster/storage/stores/memory/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

namespace muster::storage {
namespace {

class MemoryStore final : public ObjectStore {
 public:
  Status put(std::string_view name, std::span<const std::byte> bytes) override {
    MUSTER_TRY(check_object_name(name));
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    const std::lock_guard lock(mutex_);
    objects_[std::string(name)] = std::move(copy);
    return ok();
  }

  Result<std::size_t> read(std::string_view name, std::uint64_t offset,
                           std::span<std::byte> into) override {
    MUSTER_TRY(check_object_name(name));
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(name);
    if (found == objects_.end()) {
      return fail(ErrorCode::kNotFound, fmt::format("[storage/read] no object `{}`", name));
    }
    const std::vector<std::byte>& object = found->second;
    if (offset >= object.size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(into.size(), object.size() - offset);
    if (count > 0) std::memcpy(into.data(), object.data() + offset, count);
    return count;
  }

  Result<std::vector<ObjectInfo>> list(std::string_view prefix) override {
    const std::lock_guard lock(mutex_);
    std::vector<ObjectInfo> infos;
    for (auto object = objects_.lower_bound(prefix);
         object != objects_.end() && object->first.starts_with(prefix); ++object) {
      infos.push_back({object->first, object->second.size()});
    }
    return infos;
  }

  Status remove(std::string_view name) override {
    MUSTER_TRY(check_object_name(name));
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(name);
    if (found != objects_.end()) objects_.erase(found);
    return ok();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::byte>, std::less<>> objects_;
};

}  // namespace

std::unique_ptr<ObjectStore> create_memory_store() { return std::make_unique<MemoryStore>(); }

}  // namespace muster::storage
