#pragma once
// Where one rank's messages arrive, from any thread, and wait to be taken. Thread-safe.

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::comm {

// Names a message between two ranks of a group for good: a collective's sequence and the message's
// place in it, or, with kPointToPoint, a tag and how many went before under it.
struct MessageId {
  static constexpr std::uint64_t kPointToPoint = std::uint64_t{1} << 63;
  std::uint64_t channel = 0;
  std::uint64_t number = 0;
  friend auto operator<=>(const MessageId&, const MessageId&) = default;
};

constexpr bool is_message(const MessageId& id) noexcept {  // and of no collective
  return (id.channel & MessageId::kPointToPoint) != 0;
}
// Of those of one collective to one peer.
constexpr bool is_first(const MessageId& id) noexcept { return !is_message(id) && id.number == 0; }

class Inbox {
 public:
  Inbox(std::int32_t size, Clock& clock) : clock_(clock), closed_(static_cast<std::size_t>(size)) {}

  void deliver(Rank from, MessageId id, std::vector<std::byte> bytes);
  // Bytes that `owner` keeps where they are.
  void deliver(Rank from, MessageId id, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner);
  void close(Rank from, Error why);  // nothing more will come; what has come can be taken
  void fail(Error why);              // ends every take, now and later; the first reason stays
  void wake();
  std::optional<Error> failure() const;
  std::optional<Error> lost(Rank peer) const;  // why nothing more comes from there

  // Waits for the message and copies it to `into`. kTimeout with peer `from` at the deadline;
  // kInvalid where its length is not into.size().
  Status take(Rank from, MessageId id, std::span<std::byte> into, Deadline deadline);
  Result<bool> try_take(Rank from, MessageId id, std::span<std::byte> into);
  // From whom the last take() has yet to get its message; none: it is here.
  std::optional<Rank> awaited() const;

  std::uint32_t activity() const noexcept;
  void await_activity(std::uint32_t seen, TimePoint until);
  Clock& clock() const noexcept { return clock_; }

 private:
  struct Message {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  using Key = std::tuple<Rank, MessageId>;
  Result<std::optional<Message>> find(Rank from, MessageId id);  // mutex_ is held
  void changed();

  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, Message> messages_;  // guarded by mutex_, as all below
  std::vector<std::optional<Error>> closed_;
  std::optional<Error> failure_;
  std::optional<Key> awaited_;  // of take(), until it has it
  std::uint32_t activity_ = 0;
};

}  // namespace muster::comm
