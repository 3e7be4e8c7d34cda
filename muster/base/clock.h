#pragma once
// The seam to time. Everything that reads a clock or waits is given one of these, so that tests and
// the simulator decide what time it is. Monotonic time for deadlines, wall time for stamps only.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

namespace muster {

using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;
using Duration = std::chrono::nanoseconds;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

class Clock {  // thread-safe
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
  virtual WallTime wall() const noexcept = 0;
  // Waits on `condition` until it is notified or `until` has come; like any condition variable it
  // may wake early, so callers loop. False: `until` has come.
  virtual bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                          TimePoint until) = 0;
};

// The machine's own clocks. Lives as long as the process.
Clock& system_clock() noexcept;

// The moment at which a wait ends in kTimeout. There are no waits without one.
class Deadline {
 public:
  static Deadline after(const Clock& clock, Duration duration) {
    return Deadline(clock.now() + duration);
  }
  explicit constexpr Deadline(TimePoint at) noexcept : at_(at) {}
  constexpr TimePoint at() const noexcept { return at_; }
  Duration left(const Clock& clock) const noexcept { return at_ - clock.now(); }
  bool passed(const Clock& clock) const noexcept { return clock.now() >= at_; }

 private:
  TimePoint at_;
};

// "2026-11-21T12:34:56Z"; with compact "20261121T123456Z", as in the names of runs.
std::string format_utc(WallTime time, bool compact = false);

// 0 to 1,439, by the clock on the wall where this runs: the hours of a day that people mean.
int minute_of_day(WallTime time) noexcept;

}  // namespace muster
