#pragma once
// When something is due: every so many steps, epochs or per cent of the training, by the clock, at
// the end, or never. Pure but for the clock.

#include <cstdint>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/job/values.h"

namespace muster::train {

struct TrainingLength {
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 1;
};

class Cadence {
 public:
  Cadence(const job::Interval& interval, const TrainingLength& length, TimePoint start);

  // By count: the same answer on every rank. The last step is due unless the interval is "never".
  bool due(Step committed) const noexcept;

  // By the clock: each rank for itself, so it must be agreed on (parallel/flags.h) before it
  // counts.
  bool clock_due(TimePoint now) const noexcept;
  void restart(TimePoint now) noexcept { last_ = now; }  // whenever it was done

 private:
  job::Interval interval_;
  std::int64_t every_;  // steps; 0: not by count
  std::int64_t total_steps_;
  TimePoint last_;
};

}  // namespace muster::train
