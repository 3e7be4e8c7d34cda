#include "muster/cluster/remote_store.h"

#include <fmt/format.h>

namespace muster::cluster {

namespace {

class GenerationStore final : public KvStore {
 public:
  GenerationStore(std::shared_ptr<RemoteStore> store, Generation generation)
      : store_(std::move(store)), generation_(generation) {}

  Status set(const std::string& key, Bytes value, Deadline deadline) override {
    MUSTER_TRY(ask({0, StoreAction::kSet, key, std::move(value), {}, 0}, deadline));
    return ok();
  }

  Result<Bytes> get(const std::string& key, Deadline deadline) override {
    MUSTER_ASSIGN(auto reply, ask({0, StoreAction::kGet, key, {}, {}, 0}, deadline));
    return std::move(reply.value);
  }

  Result<std::int64_t> add(const std::string& key, std::int64_t delta, Deadline deadline) override {
    MUSTER_ASSIGN(const auto reply, ask({0, StoreAction::kAdd, key, {}, {}, delta}, deadline));
    return reply.number;
  }

  Result<Bytes> compare_exchange(const std::string& key, Bytes expected, Bytes desired,
                                 Deadline deadline) override {
    MUSTER_ASSIGN(auto reply, ask({0, StoreAction::kCompareExchange, key, std::move(desired),
                                   std::move(expected), 0},
                                  deadline));
    return std::move(reply.value);
  }

 private:
  Result<StoreReply> ask(StoreRequest request, Deadline deadline) {
    return store_->ask(std::move(request), generation_, deadline);
  }

  const std::shared_ptr<RemoteStore> store_;
  const Generation generation_;
};

}  // namespace

std::shared_ptr<KvStore> RemoteStore::of(Generation generation) {
  return std::make_shared<GenerationStore>(shared_from_this(), generation);
}

std::optional<Error> RemoteStore::obstacle(Generation generation) const {
  if (ended_) return ended_;
  if (newest_ <= generation) return std::nullopt;
  return fail(ErrorCode::kStale, fmt::format("[cluster/store] generation {} ended, {} has begun",
                                             to_int(generation), to_int(newest_)));
}

Result<StoreReply> RemoteStore::ask(StoreRequest request, Generation generation,
                                    Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (auto stopped = obstacle(generation)) return *stopped;
  request.id = ++last_id_;
  open_[request.id] = std::nullopt;
  lock.unlock();
  send_(request);
  lock.lock();
  while (!open_[request.id] && !obstacle(generation) && !deadline.passed(clock_))
    clock_.wait_until(lock, changed_, deadline.at());
  const auto reply = open_.extract(request.id).mapped();
  if (reply) return *reply;
  if (auto stopped = obstacle(generation)) return *stopped;
  return fail(ErrorCode::kTimeout,
              fmt::format("[cluster/store] no answer about \"{}\" in time; {}", request.key,
                          request.action == StoreAction::kGet
                              ? "the worker that sets it has not come so far"
                              : "the launcher hangs or its host is overloaded"));
}

void RemoteStore::on_reply(const StoreReply& reply) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(reply.id);
  if (found == open_.end()) return;  // its asker has given up
  found->second = reply;
  changed_.notify_all();
}

void RemoteStore::on_generation(Generation newest) {
  const std::lock_guard lock(mutex_);
  newest_ = newest;
  changed_.notify_all();
}

void RemoteStore::end(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!ended_) ended_ = why;
  changed_.notify_all();
}

}  // namespace muster::cluster
