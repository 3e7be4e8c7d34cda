#pragma once
// How far a training has come: all that a checkpoint holds besides tensors. Plain data.

#include <optional>
#include <string>

#include "muster/base/ids.h"
#include "muster/base/result.h"
#include "muster/data/step_plan.h"
#include "muster/job/spec.h"
#include "muster/optim/loss_scale.h"

namespace muster::train {

struct Best {
  double value = 0;  // of the metric that the job names
  Step step{0};
};

struct Progress {
  Step committed{0};
  data::Cursor cursor;
  std::int64_t optimizer_steps = 0;
  std::optional<Best> best;
  std::int64_t evaluations_without_gain = 0;
  std::optional<double> first_loss;            // of the run: what divergence is measured against
  std::optional<optim::LossScale> loss_scale;  // of the next step, in fp16
};

// What an evaluation found. One that is not finite is no gain: nothing could be better than NaN.
void note_evaluation(Progress& progress, bool higher_is_better, double value);

// As JSON text, for the manifest. kCorrupt for what to_json() did not write.
std::string to_json(const Progress& progress);
Result<Progress> progress_from_json(std::string_view text);

}  // namespace muster::train
