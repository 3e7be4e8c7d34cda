#pragma once
// A clock that stands still until the test moves it. Thread-safe.

#include <atomic>

#include "muster/base/clock.h"

namespace muster::testing {

class FakeClock final : public Clock {
 public:
  explicit FakeClock(TimePoint start = TimePoint(std::chrono::hours(1))) : now_(start) {}

  TimePoint now() const noexcept override { return now_.load(); }
  // 2026-01-01T00:00:00Z and what has passed since the start.
  WallTime wall() const noexcept override {
    return WallTime(std::chrono::seconds(1767225600)) + (now() - start_);
  }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    // Who advances the clock does not know who waits, so waiters look again every millisecond.
    if (now() < until) condition.wait_for(lock, std::chrono::milliseconds(1));
    return now() < until;
  }

  void advance(Duration by) {
    TimePoint before = now_.load();
    while (!now_.compare_exchange_weak(before, before + by)) {
    }
  }

 private:
  std::atomic<TimePoint> now_;
  const TimePoint start_ = now_.load();
};

}  // namespace muster::testing
