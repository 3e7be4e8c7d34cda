#pragma once
// Work: the handle of one submitted operation. Ends exactly once, in success or in one Error.
// A cheap shared handle; thread-safe.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::comm {

class WorkState;

class Work {
 public:
  explicit Work(std::shared_ptr<WorkState> state) : state_(std::move(state)) {}
  static Work ended(Status status);  // already over

  // Blocks until the operation ends; bounded by the operation's own deadline.
  Status wait() const;
  bool done() const noexcept;
  bool wait_until(Clock& clock, TimePoint until) const;  // whether it has ended
  // Runs `then` exactly once with the outcome: never inside submit(), on the thread that ended the
  // operation, or at once in the caller's thread when it has already ended. It must not block.
  void on_done(std::function<void(const Status&)> then) const;

 private:
  std::shared_ptr<WorkState> state_;
};

// Waits for all of them, whatever becomes of one: their memory is at rest then. The first error in
// their order.
Status wait_for_all(const std::vector<Work>& works);

// The engine's side of a Work. Thread-safe.
class WorkState {
 public:
  // Ends the operation; only the first call counts.
  void finish(Status status);

 private:
  friend class Work;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Status> outcome_;                         // guarded by mutex_
  std::vector<std::function<void(const Status&)>> then_;  // guarded by mutex_
};

}  // namespace muster::comm
