#pragma once
// Notices a training that has run away without yet producing a NaN: the smoothed loss stays far
// above where the run began. A value; one thread.

#include <cstdint>
#include <optional>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::train {

class DivergenceGuard {
 public:
  // `first_loss`: of the run's first step, when resuming.
  explicit DivergenceGuard(std::optional<double> first_loss) : first_(first_loss) {}

  // The loss of a committed step: kNumeric, naming step, loss and learning rate, once the average
  // of the last ~50 steps has been above 10 times the run's first loss.
  Status observe(Step step, double loss, double learning_rate);

  // Whether the last loss, or the average, is so high: a state that nobody should go on from.
  bool doubtful() const noexcept { return doubtful_; }

  std::optional<double> first_loss() const noexcept { return first_; }

 private:
  std::optional<double> first_;
  std::optional<double> smoothed_;
  std::int64_t steps_above_ = 0;
  bool doubtful_ = false;
};

}  // namespace muster::train
