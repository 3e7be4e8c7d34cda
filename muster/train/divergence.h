#pragma once
// Notices a training that has run away without yet producing a NaN: the smoothed loss stays far
// above where the run began. A value; one thread.

#include <cstdint>
#include <optional>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::train {

// What the losses were like so far. Plain data.
struct LossTrend {
  std::optional<double> smoothed;
  std::int64_t steps_above = 0;  // in a row
  bool doubtful = false;
  friend bool operator==(const LossTrend&, const LossTrend&) = default;
};

class DivergenceGuard {
 public:
  // `first_loss`: of the run's first step, when resuming or in another's place; `trend`: likewise.
  explicit DivergenceGuard(std::optional<double> first_loss, const LossTrend& trend = {})
      : first_(first_loss), trend_(trend) {}

  // The loss of a committed step: kNumeric, naming step, loss and learning rate, once the average
  // of the last ~50 steps has been above 10 times the run's first loss, of which less than 1 counts
  // as 1.
  Status observe(Step step, double loss, double learning_rate);

  // Whether the last loss, or the average, is so high: a state that nobody should go on from.
  bool doubtful() const noexcept { return trend_.doubtful; }

  std::optional<double> first_loss() const noexcept { return first_; }
  const LossTrend& trend() const noexcept { return trend_; }

 private:
  std::optional<double> first_;
  LossTrend trend_;
};

}  // namespace muster::train
