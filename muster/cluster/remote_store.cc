#include "muster/cluster/remote_store.h"

#include <fmt/format.h>

namespace muster::cluster {

Result<StoreReply> RemoteStore::ask(StoreRequest request, Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (ended_) return *ended_;
  request.id = ++last_id_;
  open_[request.id] = std::nullopt;
  lock.unlock();
  send_(request);
  lock.lock();
  while (!open_[request.id] && !ended_ && !deadline.passed(clock_))
    clock_.wait_until(lock, changed_, deadline.at());
  const auto reply = open_.extract(request.id).mapped();
  if (reply) return *reply;
  if (ended_) return *ended_;
  return fail(ErrorCode::kTimeout,
              fmt::format("[cluster/store] no answer about \"{}\" in time; {}", request.key,
                          request.action == StoreAction::kGet
                              ? "the worker that sets it has not come so far"
                              : "the launcher hangs or its host is overloaded"));
}

Status RemoteStore::set(const std::string& key, Bytes value, Deadline deadline) {
  MUSTER_TRY(ask({0, StoreAction::kSet, key, std::move(value), {}, 0}, deadline));
  return ok();
}

Result<Bytes> RemoteStore::get(const std::string& key, Deadline deadline) {
  MUSTER_ASSIGN(auto reply, ask({0, StoreAction::kGet, key, {}, {}, 0}, deadline));
  return std::move(reply.value);
}

Result<std::int64_t> RemoteStore::add(const std::string& key, std::int64_t delta,
                                      Deadline deadline) {
  MUSTER_ASSIGN(const auto reply, ask({0, StoreAction::kAdd, key, {}, {}, delta}, deadline));
  return reply.number;
}

Result<Bytes> RemoteStore::compare_exchange(const std::string& key, Bytes expected, Bytes desired,
                                            Deadline deadline) {
  MUSTER_ASSIGN(auto reply, ask({0, StoreAction::kCompareExchange, key, std::move(desired),
                                 std::move(expected), 0},
                                deadline));
  return std::move(reply.value);
}

void RemoteStore::on_reply(const StoreReply& reply) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(reply.id);
  if (found == open_.end()) return;  // its asker has given up
  found->second = reply;
  changed_.notify_all();
}

void RemoteStore::end(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!ended_) ended_ = why;
  changed_.notify_all();
}

}  // namespace muster::cluster
