#pragma once
// Dynamic loss scaling (Micikevicius et al., ICLR 2018, §3.2; the rule of PyTorch's GradScaler):
// fp16 cannot hold the small gradients of a network, so the loss is multiplied by a scale before
// backward and the gradients are divided by it afterwards. The scale doubles while all goes well;
// where a gradient overflows the step is skipped and the scale halved. A value: the next one
// follows from this one and from whether the step overflowed, which all ranks see in the same sums.

#include <cstdint>

#include "muster/base/result.h"

namespace muster::optim {

struct LossScaleSpec {
  double init_scale = 65536;
  double growth_factor = 2;             // above 1
  double backoff_factor = 0.5;          // in (0, 1)
  std::int64_t growth_interval = 2000;  // steps in a row without an overflow before it grows
  double min_scale = 1;
};

struct LossScale {
  double scale = 1;
  std::int64_t good_steps = 0;  // in a row, since the scale last changed
  std::int64_t stuck = 0;       // overflows in a row at the smallest scale
  friend bool operator==(const LossScale&, const LossScale&) = default;
};

// How many steps in a row may overflow at the smallest scale before the training has diverged.
inline constexpr std::int64_t kMostStuck = 3;

LossScale initial_loss_scale(const LossScaleSpec& spec) noexcept;

// After one more step. kNumeric: no smaller scale helps, it is the training that overflows.
Result<LossScale> next_loss_scale(const LossScaleSpec& spec, LossScale now, bool overflowed);

}  // namespace muster::optim
