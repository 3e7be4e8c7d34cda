#include "muster/comm/engine/inbox.h"

#include <fmt/format.h>

#include <cstring>

namespace muster::comm {
namespace {

Error wrong_length(Rank from, std::size_t got, std::size_t expected) {
  return fail(
      ErrorCode::kInvalid,
      fmt::format("rank {} sent {} bytes where {} were expected: the ranks called different "
                  "operations or shapes",
                  to_int(from), got, expected),
      from);
}

// Without the mutex: what comes meanwhile is not kept waiting.
Status copy_out(Rank from, std::span<const std::byte> bytes, std::span<std::byte> into) {
  if (bytes.size() != into.size()) return wrong_length(from, bytes.size(), into.size());
  if (!bytes.empty()) std::memcpy(into.data(), bytes.data(), bytes.size());
  return ok();
}

Error nothing_came(Rank from) {
  return fail(ErrorCode::kTimeout, fmt::format("rank {} sent nothing", to_int(from)), from);
}

}  // namespace

void Inbox::changed() {
  ++activity_;
  changed_.notify_all();
}

void Inbox::deliver(Rank from, MessageId id, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  deliver(from, id, *owner, owner);
}

void Inbox::deliver(Rank from, MessageId id, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> owner) {
  const std::lock_guard lock(mutex_);
  messages_.insert_or_assign(Key{from, id}, Message{bytes, std::move(owner)});
  changed();
}

void Inbox::close(Rank from, Error why) {
  const std::lock_guard lock(mutex_);
  auto& closed = closed_[static_cast<std::size_t>(to_int(from))];
  if (!closed) closed = std::move(why);
  changed();
}

void Inbox::fail(Error why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(why);
  changed();
}

std::optional<Error> Inbox::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Error> Inbox::lost(Rank peer) const {
  const std::lock_guard lock(mutex_);
  return failure_ ? failure_ : closed_[static_cast<std::size_t>(to_int(peer))];
}

void Inbox::wake() {
  const std::lock_guard lock(mutex_);
  changed();
}

Result<std::optional<Inbox::Message>> Inbox::find(Rank from, MessageId id) {
  if (failure_) return *failure_;
  const auto found = messages_.find({from, id});
  if (found == messages_.end()) {
    const auto& closed = closed_[static_cast<std::size_t>(to_int(from))];
    if (closed) return *closed;
    return std::optional<Message>();
  }
  Message message = std::move(found->second);
  messages_.erase(found);
  return std::optional(std::move(message));
}

Status Inbox::take(Rank from, MessageId id, std::span<std::byte> into, Deadline deadline) {
  std::unique_lock lock(mutex_);
  for (;;) {
    MUSTER_ASSIGN(const auto message, find(from, id));
    if (message) {
      awaited_.reset();
      lock.unlock();
      return copy_out(from, message->bytes, into);
    }
    awaited_ = Key{from, id};
    if (deadline.passed(clock_)) return nothing_came(from);
    clock_.wait_until(lock, changed_, deadline.at());
  }
}

Result<bool> Inbox::try_take(Rank from, MessageId id, std::span<std::byte> into) {
  std::unique_lock lock(mutex_);
  MUSTER_ASSIGN(const auto message, find(from, id));
  lock.unlock();
  if (!message) return false;
  MUSTER_TRY(copy_out(from, message->bytes, into));
  return true;
}

std::optional<Rank> Inbox::awaited() const {
  const std::lock_guard lock(mutex_);
  if (!awaited_ || messages_.contains(*awaited_)) return std::nullopt;
  return std::get<Rank>(*awaited_);
}

std::uint32_t Inbox::activity() const noexcept {
  const std::lock_guard lock(mutex_);
  return activity_;
}

void Inbox::await_activity(std::uint32_t seen, TimePoint until) {
  std::unique_lock lock(mutex_);
  while (activity_ == seen && clock_.now() < until) clock_.wait_until(lock, changed_, until);
}

}  // namespace muster::comm
