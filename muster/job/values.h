#pragma once
// Value types of the job file that the standard library has not.

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/base/clock.h"
#include "muster/base/result.h"

namespace muster::job {

struct Bytes {
  std::uint64_t count = 0;
  friend bool operator==(Bytes, Bytes) = default;
};

// How often, or how long, in the terms of a training: "100 steps", "1 epoch", "5%", "5 min", "end",
// "never".
class Interval {
 public:
  enum class Unit : std::uint8_t { kSteps, kEpochs, kFraction, kTime, kEnd, kNever };

  static Interval of_steps(std::int64_t steps) { return {Unit::kSteps, double(steps), {}}; }
  static Interval of_epochs(double epochs) { return {Unit::kEpochs, epochs, {}}; }
  static Interval of_fraction(double share) { return {Unit::kFraction, share, {}}; }
  static Interval of_time(Duration time) { return {Unit::kTime, 0, time}; }
  static Interval end() { return {Unit::kEnd, 0, {}}; }
  static Interval never() { return {Unit::kNever, 0, {}}; }

  Unit unit() const noexcept { return unit_; }
  double amount() const noexcept { return amount_; }  // of kSteps, kEpochs, kFraction
  Duration time() const noexcept { return time_; }    // of kTime

  // The interval counted in steps, rounded to the nearest, at least 1 unless it is nothing at all.
  // kEnd is `total_steps`; kNever and kTime have no steps and give 0.
  std::int64_t steps(std::int64_t total_steps, double steps_per_epoch) const noexcept;

  friend bool operator==(const Interval&, const Interval&) = default;

 private:
  Interval(Unit unit, double amount, Duration time) : unit_(unit), amount_(amount), time_(time) {}

  Unit unit_;
  double amount_;
  Duration time_;
};

// The error's message says only what is wrong; the loader adds the place.
Result<Interval> parse_interval(std::string_view text);

// As the job file writes them; what they give is read back to the same value.
std::string to_string(const Interval& interval);
std::string to_string(Duration duration);
std::string to_string(Bytes bytes);

}  // namespace muster::job
