#include "muster/optim/loss_scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace muster::optim {
namespace {

// Backward starts from the scale as an f32.
constexpr double kLargest = std::numeric_limits<float>::max();

Result<LossScale> after_overflow(const LossScaleSpec& spec, const LossScale& now) {
  LossScale next{.scale = std::max(now.scale * spec.backoff_factor, spec.min_scale)};
  if (now.scale <= spec.min_scale) next.stuck = now.stuck + 1;
  if (next.stuck < kMostStuck) return next;
  return fail(ErrorCode::kNumeric,
              fmt::format("[optim/loss_scale] {} steps in a row overflowed at the smallest loss "
                          "scale, {:g}: the training has diverged; lower "
                          "optimizer.learning_rate, lengthen schedule.warmup, set "
                          "training.max_grad_norm, or use training.precision: bf16",
                          next.stuck, spec.min_scale));
}

}  // namespace

LossScale initial_loss_scale(const LossScaleSpec& spec) noexcept {
  return {.scale = spec.init_scale};
}

Result<LossScale> next_loss_scale(const LossScaleSpec& spec, LossScale now, bool overflowed) {
  if (overflowed) return after_overflow(spec, now);
  now.stuck = 0;
  if (++now.good_steps < spec.growth_interval) return now;
  const double grown = now.scale * spec.growth_factor;
  return LossScale{.scale = grown <= kLargest ? grown : now.scale};
}

}  // namespace muster::optim
