#pragma once
// A clock that runs faster than the machine's: what is done once a second costs as much of a step
// as in a training, and the comparison is over sooner.

#include "muster/base/clock.h"

namespace muster::bench {

class HurriedClock final : public Clock {  // thread-safe
 public:
  static constexpr std::int64_t kHurry = 40;

  TimePoint now() const noexcept override { return began_ + kHurry * (system_.now() - began_); }
  WallTime wall() const noexcept override { return began_wall_ + (now() - began_); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return system_.wait_until(lock, condition, began_ + (until - began_) / kHurry);
  }

 private:
  Clock& system_ = system_clock();
  const TimePoint began_ = system_.now();
  const WallTime began_wall_ = system_.wall();
};

}  // namespace muster::bench
