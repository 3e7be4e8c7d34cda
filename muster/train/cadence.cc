#include "muster/train/cadence.h"

namespace muster::train {

Cadence::Cadence(const job::Interval& interval, const TrainingLength& length, TimePoint start)
    : interval_(interval),
      every_(interval.steps(length.total_steps, static_cast<double>(length.steps_per_epoch))),
      total_steps_(length.total_steps),
      last_(start) {}

bool Cadence::due(Step committed) const noexcept {
  if (interval_.unit() == job::Interval::Unit::kNever) return false;
  if (to_int(committed) >= total_steps_) return true;
  return every_ > 0 && to_int(committed) % every_ == 0;
}

bool Cadence::clock_due(TimePoint now) const noexcept {
  return interval_.unit() == job::Interval::Unit::kTime && now - last_ >= interval_.time();
}

}  // namespace muster::train
