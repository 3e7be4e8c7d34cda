#include "muster/optim/lr_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace muster::optim {
namespace {

// From `from` to `to` by half a cosine; `share` in [0, 1].
double half_cosine(double from, double to, double share) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}

double straight(double from, double to, double share) { return from + (to - from) * share; }

// How much of [begin, end) is behind `position`, in [0, 1].
double share_of(double position, double begin, double end) {
  if (position >= end) return 1;
  return std::max(0.0, (position - begin) / (end - begin));
}

double one_cycle(const ScheduleSpec& spec, double position) {
  const auto total = static_cast<double>(spec.total_samples);
  const double top = spec.rise_fraction * total;
  const double peak = spec.learning_rate;
  if (position < top)
    return half_cosine(peak / spec.start_divisor, peak, share_of(position, 0, top));
  return half_cosine(peak, peak * spec.final_ratio, share_of(position, top, total));
}

double decayed(const ScheduleSpec& spec, double position) {
  const double end = spec.learning_rate * spec.final_ratio;
  const double share = share_of(position, static_cast<double>(spec.warmup_samples),
                                static_cast<double>(spec.total_samples));
  switch (spec.kind) {
    case ScheduleKind::kLinear:
      return straight(spec.learning_rate, end, share);
    case ScheduleKind::kCosine:
      return half_cosine(spec.learning_rate, end, share);
    default:
      return spec.learning_rate;
  }
}

Error bad_schedule(std::string_view field, double value, std::string_view wanted) {
  return fail(ErrorCode::kInvalid,
              fmt::format("[optim/lr_schedule] {} is {}; it must be {}", field, value, wanted));
}

}  // namespace

double learning_rate_at(const ScheduleSpec& spec, std::int64_t samples_seen,
                        std::int64_t step_samples) {
  const auto position = static_cast<double>(samples_seen);
  if (spec.kind == ScheduleKind::kOneCycle) return one_cycle(spec, position);
  if (samples_seen < spec.warmup_samples) {
    const auto reached = static_cast<double>(samples_seen + step_samples);
    return spec.learning_rate * std::min(1.0, reached / static_cast<double>(spec.warmup_samples));
  }
  return decayed(spec, position);
}

Status validate(const ScheduleSpec& spec) {
  if (!(spec.learning_rate >= 0) || !std::isfinite(spec.learning_rate))
    return bad_schedule("learning_rate", spec.learning_rate, "finite and not negative");
  if (spec.kind != ScheduleKind::kConstant && spec.total_samples < 1)
    return bad_schedule("total_samples", static_cast<double>(spec.total_samples), "at least 1");
  if (spec.warmup_samples < 0 ||
      (spec.kind != ScheduleKind::kConstant && spec.warmup_samples > spec.total_samples))
    return bad_schedule("warmup_samples", static_cast<double>(spec.warmup_samples),
                        "between 0 and total_samples");
  if (spec.kind == ScheduleKind::kOneCycle && spec.warmup_samples > 0)
    return bad_schedule("warmup_samples", static_cast<double>(spec.warmup_samples),
                        "0 with one_cycle, which warms up by itself");
  if (!(spec.final_ratio >= 0 && spec.final_ratio <= 1))
    return bad_schedule("final_ratio", spec.final_ratio, "in [0, 1]");
  if (!(spec.start_divisor >= 1))
    return bad_schedule("start_divisor", spec.start_divisor, "at least 1");
  if (!(spec.rise_fraction >= 0 && spec.rise_fraction <= 1))
    return bad_schedule("rise_fraction", spec.rise_fraction, "in [0, 1]");
  return ok();
}

double scale_learning_rate(BatchScaling scaling, double learning_rate, std::int64_t batch,
                           std::int64_t base_batch) noexcept {
  const double ratio = static_cast<double>(batch) / static_cast<double>(base_batch);
  switch (scaling) {
    case BatchScaling::kNone:
      return learning_rate;
    case BatchScaling::kLinear:
      return learning_rate * ratio;
    case BatchScaling::kSquareRoot:
      return learning_rate * std::sqrt(ratio);
  }
  return learning_rate;
}

}  // namespace muster::optim
