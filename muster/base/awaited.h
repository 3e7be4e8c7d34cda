#pragma once
// An answer that one thread waits for and another gives, once. Like a future and its promise, but
// the wait goes by a Clock, which std::future does not know. Thread-safe.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/clock.h"

namespace muster {

template <class T>
class Awaited {
  struct State {
    void end(std::optional<T> with) {
      const std::lock_guard lock(mutex);
      if (std::exchange(over, true)) return;
      value = std::move(with);
      changed.notify_all();
    }

    std::mutex mutex;
    std::condition_variable changed;
    std::optional<T> value;  // guarded by mutex, as all below
    bool over = false;       // it was given, or nobody is left to give it
  };

 public:
  class Giver {
   public:
    explicit Giver(std::shared_ptr<State> state) : state_(std::move(state)) {}
    ~Giver() { state_->end(std::nullopt); }
    Giver(const Giver&) = delete;
    Giver& operator=(const Giver&) = delete;
    // The first answer counts.
    void give(T value) { state_->end(std::move(value)); }

   private:
    const std::shared_ptr<State> state_;
  };

  // For a callback; may outlive this object. Called once: where the giver goes without having
  // given, as with a callback that is dropped, the wait is over.
  std::shared_ptr<Giver> giver() { return std::make_shared<Giver>(state_); }

  // Nothing: it did not come before the deadline, or never will. Called once.
  std::optional<T> wait(Clock& clock, Deadline deadline) {
    std::unique_lock lock(state_->mutex);
    while (!state_->over && !deadline.passed(clock))
      clock.wait_until(lock, state_->changed, deadline.at());
    return std::move(state_->value);
  }

 private:
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace muster
