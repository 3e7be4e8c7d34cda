#include "muster/train/step_patience.h"

#include <algorithm>

namespace muster::train {
namespace {

constexpr std::int32_t kEnough = 20;   // steps; the first ones compile kernels and fill caches
constexpr std::int32_t kAnew = 5;      // of a new generation, which has less to get used to
constexpr int kTimes = 20;             // a worker ten times slower is a straggler, not stuck
constexpr double kFadingAStep = 0.99;  // a step
constexpr Duration kLeast = std::chrono::seconds(2);
// So that who raises the limit, for a machine on which anything may take long, also raises this.
constexpr int kShare = 15;

}  // namespace

void StepPatience::took(Duration step) noexcept {
  if (disturbed_ > 0) {
    --disturbed_;
    return;
  }
  const auto faded = std::chrono::duration_cast<Duration>(longest_ * kFadingAStep);
  longest_ = std::max(faded, step);
  count_ = std::min(count_ + 1, kEnough);
}

void StepPatience::begin_generation() noexcept {
  count_ = std::min(count_, kEnough - kAnew);
  disturbed_ = 0;
}

Duration StepPatience::limit(Duration most) const noexcept {
  if (count_ < kEnough || disturbed_ > 0) return most;
  return std::min(most, std::max({kLeast, most / kShare, kTimes * longest_}));
}

}  // namespace muster::train
