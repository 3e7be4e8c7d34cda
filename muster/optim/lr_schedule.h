#pragma once
// The learning rate as a pure function of progress. Progress is counted in samples seen, so a
// schedule does not change with the batch size or the number of workers.

#include <cstdint>

#include "muster/base/result.h"

namespace muster::optim {

enum class ScheduleKind : std::uint8_t {
  kConstant,
  kLinear,    // from the peak to peak · final_ratio in a straight line
  kCosine,    // half a cosine from the peak to peak · final_ratio (Loshchilov and Hutter 2017)
  kOneCycle,  // up from peak / start_divisor and down to peak · final_ratio, both by half a cosine
};            // (Smith and Topin 2019; torch.optim.lr_scheduler.OneCycleLR)

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kCosine;
  double learning_rate = 0.1;       // the peak
  std::int64_t total_samples = 0;   // where the schedule ends; after it the rate stays
  std::int64_t warmup_samples = 0;  // straight line up to the peak; not with one_cycle
  double final_ratio = 0;           // of the peak, at the end
  double start_divisor = 25;        // one_cycle: first rate = peak / start_divisor
  double rise_fraction = 0.3;       // one_cycle: share of the samples spent rising
};

// The rate for the step that begins after `samples_seen` samples and takes `step_samples` more.
// Warm-up counts the step's own samples, so that the first step's rate is not zero; the decay after
// it counts from the end of the warm-up.
double learning_rate_at(const ScheduleSpec& spec, std::int64_t samples_seen,
                        std::int64_t step_samples);

// kInvalid names the value out of range.
Status validate(const ScheduleSpec& spec);

enum class BatchScaling : std::uint8_t {
  kNone,
  kLinear,      // Goyal et al. 2017
  kSquareRoot,  // Krizhevsky 2014; for adaptive methods Malladi et al. 2022
};

// The peak for `batch` samples a step, given the one that was tuned for `base_batch`.
double scale_learning_rate(BatchScaling scaling, double learning_rate, std::int64_t batch,
                           std::int64_t base_batch) noexcept;

}  // namespace muster::optim
