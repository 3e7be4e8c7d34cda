#include "muster/train/divergence.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::train {
namespace {

constexpr double kSmoothing = 0.02;         // an average over about 50 steps
constexpr double kTolerated = 10;           // times the first loss
constexpr double kSmallest = 1;             // first loss: of a trained model it may be next to none
constexpr std::int64_t kPatientSteps = 50;  // steps

}  // namespace

Status DivergenceGuard::observe(Step step, double loss, double learning_rate) {
  if (!first_) first_ = loss;
  auto& [smoothed, steps_above, doubtful] = trend_;
  smoothed = smoothed ? *smoothed + kSmoothing * (loss - *smoothed) : loss;
  const double limit = kTolerated * std::max(*first_, kSmallest);
  steps_above = *smoothed > limit ? steps_above + 1 : 0;
  doubtful = steps_above > 0 || loss > limit;
  if (steps_above < kPatientSteps) return ok();
  return fail(
      ErrorCode::kNumeric,
      fmt::format("[train/divergence] step {}: the loss is {:.4g} on average, more than {} times "
                  "the run's first ({:.4g}{}), at learning rate {:g}; lower "
                  "optimizer.learning_rate, lengthen schedule.warmup or set "
                  "training.max_grad_norm",
                  to_int(step), *smoothed, kTolerated, *first_,
                  *first_ < kSmallest ? ", taken as 1" : "", learning_rate));
}

}  // namespace muster::train
