#include "muster/base/clock.h"

#include <fmt/chrono.h>

#include <ctime>

namespace muster {
namespace {

class SystemClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
  WallTime wall() const noexcept override { return std::chrono::system_clock::now(); }
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& condition,
                  TimePoint until) override {
    return condition.wait_until(lock, until) == std::cv_status::no_timeout;
  }
};

std::time_t whole_seconds(WallTime time) {
  return std::chrono::system_clock::to_time_t(
      std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

}  // namespace

Clock& system_clock() noexcept {
  static SystemClock clock;
  return clock;
}

std::string format_utc(WallTime time, bool compact) {
  const auto utc = fmt::gmtime(whole_seconds(time));
  return compact ? fmt::format("{:%Y%m%dT%H%M%SZ}", utc)
                 : fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc);
}

int minute_of_day(WallTime time) noexcept {
  const std::time_t seconds = whole_seconds(time);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  return 60 * local.tm_hour + local.tm_min;
}

}  // namespace muster
