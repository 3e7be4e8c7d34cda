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
  double value = 0;
  Step step{0};
  std::string metric = {};  // that the job named; empty: of a checkpoint that does not say
};

struct Progress {
  Step committed{0};
  data::Cursor cursor;
  std::int64_t optimizer_steps = 0;
  std::optional<Best> best;
  std::int64_t evaluations_without_gain = 0;
  bool owes_evaluation = false;                // one was due when the training was stopped
  std::optional<double> first_loss;            // of the run: what divergence is measured against
  std::optional<optim::LossScale> loss_scale;  // of the next step, in fp16
};

// Drops the best where it is of another metric, which cannot be compared; whether it did.
bool forget_other_best(Progress& progress, const std::string& metric);

// What an evaluation found of that metric. One that is not finite is no gain: nothing could be
// better than NaN.
void note_evaluation(Progress& progress, const std::string& metric, bool higher_is_better,
                     double value);

// As JSON text, for the manifest. kCorrupt for what to_json() did not write.
std::string to_json(const Progress& progress);
Result<Progress> progress_from_json(std::string_view text);

}  // namespace muster::train
