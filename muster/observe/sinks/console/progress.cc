#include "muster/observe/sinks/console/progress.h"

#include <algorithm>
#include <cmath>

namespace muster::observe {

void SmoothedRatio::add(double amount, double weight, double seconds) {
  const double keep = std::exp(-std::max(seconds, 0.0) / time_constant_s_);
  amount_ = amount_ * keep + amount;
  weight_ = weight_ * keep + weight;
}

std::optional<double> SmoothedRatio::value() const {
  if (!(weight_ > 0)) return std::nullopt;
  return amount_ / weight_;
}

void Progress::take(const RunStarted& started) {
  *this = Progress();
  run_ = started;
}

void Progress::take(const Metrics& row) {
  if (row.is_evaluation()) return;
  const std::int64_t before = has_step_ ? last_.samples_seen : run_.samples_seen;
  const auto samples = static_cast<double>(row.samples_seen - before);
  const double step_time = row.find(metric::kStepTime).value_or(0);
  // The first step has no row before it: its own time stands for the wall time.
  const double passed =
      has_step_ ? std::chrono::duration<double>(row.time - last_.time).count() : step_time;
  const double counted = expected(std::max(passed, 0.0));
  overall_.add(samples, counted, counted);
  rate_.add(samples, step_time, step_time);
  for (std::size_t i = 0; i < kPhaseCount; ++i) {
    const double seconds = row.find(metric_name(static_cast<Phase>(i))).value_or(0);
    phases_[i].add(seconds, step_time, step_time);
  }
  last_ = row;
  has_step_ = true;
}

// What stood still once need not do so again, and after one stall among few steps hours would seem
// to be left. Of the first row nothing is expected: all that begins is slow.
double Progress::expected(double passed) {
  constexpr double kFar = 5;  // times what is usual
  const double usual = between_.value().value_or(passed);
  const double counted = std::min(passed, std::max(kFar * usual, longest_));
  if (has_step_) longest_ = std::max(longest_, passed);
  between_.add(counted, 1, counted);
  return counted;
}

std::optional<double> Progress::fraction() const {
  const auto share = [](double done, double total) { return std::clamp(done / total, 0.0, 1.0); };
  const double samples = static_cast<double>(has_step_ ? last_.samples_seen : run_.samples_seen);
  if (run_.total_samples > 0) return share(samples, static_cast<double>(run_.total_samples));
  if (run_.total_steps <= 0) return std::nullopt;
  const Step step = has_step_ ? last_.step : run_.first_step;
  return share(static_cast<double>(to_int(step)), static_cast<double>(run_.total_steps));
}

std::optional<double> Progress::samples_per_second() const {
  const std::optional<double> rate = rate_.value();
  return rate ? rate : overall_.value();
}

std::optional<Duration> Progress::left() const {
  const std::optional<double> rate = overall_.value();
  const std::optional<double> done = fraction();
  if (!rate || !(*rate > 0) || !done || !has_step_) return std::nullopt;
  const double seen = static_cast<double>(last_.samples_seen);
  const double total = run_.total_samples > 0
                           ? static_cast<double>(run_.total_samples)
                           : seen * static_cast<double>(run_.total_steps) /
                                 std::max(1.0, static_cast<double>(to_int(last_.step)));
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::max(0.0, total - seen) / *rate));
}

std::optional<double> Progress::share(Phase phase) const {
  return phases_[static_cast<std::size_t>(phase)].value();
}

}  // namespace muster::observe
