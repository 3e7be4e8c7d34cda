#include "muster/cluster/store.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>

namespace muster::cluster {
namespace {

class MemoryStore : public KvStore {
 public:
  explicit MemoryStore(Clock& clock) : clock_(clock) {}

  Status set(const std::string& key, Bytes value, Deadline) override {
    const std::lock_guard lock(mutex_);
    values_[key] = std::move(value);
    changed_.notify_all();
    return ok();
  }

  Result<Bytes> get(const std::string& key, Deadline deadline) override {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (deadline.passed(clock_))
        return fail(ErrorCode::kTimeout,
                    fmt::format("[cluster/store] nobody has set \"{}\" in time", key));
      clock_.wait_until(lock, changed_, deadline.at());
    }
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Deadline) override {
    const std::lock_guard lock(mutex_);
    return counters_[key] += delta;
  }

  Result<Bytes> compare_exchange(const std::string& key, Bytes expected, Bytes desired,
                                 Deadline) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    const bool matches = found == values_.end() ? expected.empty() : found->second == expected;
    if (!matches) return found == values_.end() ? Bytes() : found->second;
    values_[key] = desired;
    changed_.notify_all();
    return desired;
  }

 private:
  Clock& clock_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Bytes> values_;
  std::map<std::string, std::int64_t> counters_;
};

}  // namespace

std::unique_ptr<KvStore> create_memory_store(Clock& clock) {
  return std::make_unique<MemoryStore>(clock);
}

Bytes to_bytes(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return Bytes(begin, begin + text.size());
}

std::string to_string(const Bytes& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace muster::cluster
