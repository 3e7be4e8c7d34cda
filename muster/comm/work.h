#pragma once
// Work: the handle of one submitted operation. Ends exactly once, in success or in one Error.
// A cheap shared handle; thread-safe.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/comm/awaited.h"

namespace muster::comm {

class WorkState;

// What ends operations, as those that wait for one see it. Thread-safe.
class WorkRunner {
 public:
  virtual ~WorkRunner() = default;
  // The caller has nothing else to do until `state` ends: unless another thread is at it, what is
  // queued up to it runs in this one.
  virtual void help(const WorkState& state) = 0;
  // Somebody hopes for `state` to end who does not wait for it: what is queued begins now.
  virtual void hasten(const WorkState& state) = 0;
  // Of `state`, as Work::awaited().
  virtual std::optional<Awaited> awaited(const WorkState& state) = 0;
};

class Work {
 public:
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  static Work ended(Status status);  // already over

  // Blocks until the operation ends. An operation that nobody has begun yet runs in the caller's
  // thread, after those that were submitted before it, which end by their own deadlines: it is
  // bounded by the latest of theirs and its own.
  Status wait() const;
  bool done() const noexcept;
  bool wait_until(Clock& clock, TimePoint until) const;  // whether it has ended
  // Runs `then` exactly once with the outcome: never inside submit(), on the thread that ended the
  // operation, or at once in the caller's thread when it has already ended. It must not block.
  void on_done(std::function<void(const Status&)> then) const;
  // The same for who only takes notes: the operation does not begin any sooner for it.
  void note_done(std::function<void(const Status&)> then) const;
  // Runs `then` once somebody blocks for the operation: on the first thread that does, before it
  // blocks. Not where it has ended by then. It must not block. One note.
  void note_wait(std::function<void()> then) const;
  // For whom this rank waits in it, by ranks of the whole group; as it ends in an error: for whom
  // it has waited. None: it has ended, is a message, or what carries it out does not know.
  std::optional<Awaited> awaited() const;

 private:
  void hasten() const;
  void tell_wait() const;

  std::shared_ptr<WorkState> state_;
};

// Waits for all of them, whatever becomes of one: their memory is at rest then. One exception:
// after a failure a tensor from allocate() in shared memory, if a rank has stood still in the
// middle of its part of it for a second (its process was stopped); going on, it may still write
// that part of a sum. The first error in their order.
Status wait_for_all(const std::vector<Work>& works);

// The engine's side of a Work. Thread-safe.
class WorkState {
 public:
  explicit WorkState(std::weak_ptr<WorkRunner> runner = {}) : runner_(std::move(runner)) {}

  bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
  // Ends the operation; only the first call counts.
  void finish(Status status);

 private:
  friend class Work;
  const std::weak_ptr<WorkRunner> runner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> ended_{false};                        // set under mutex_
  std::optional<Status> outcome_;                         // set before ended_, then never changed
  std::vector<std::function<void(const Status&)>> then_;  // guarded by mutex_
  std::function<void()> on_wait_;                         // guarded by mutex_
  std::atomic<bool> has_note_{false};                     // on_wait_ has been set; under mutex_
};

}  // namespace muster::comm
