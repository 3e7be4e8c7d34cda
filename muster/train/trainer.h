#pragma once
// The step loop: data, step, bookkeeping, evaluation, checkpoints, until the training is done,
// stops itself, or is asked to stop. The same loop runs on every rank and takes the same decisions
// there: whatever one rank alone knows (signals, the clock) travels in the step's flags first. One
// thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/data/batch_stream.h"
#include "muster/job/spec.h"
#include "muster/observe/hub.h"
#include "muster/optim/lr_schedule.h"
#include "muster/parallel/strategy.h"
#include "muster/train/cadence.h"
#include "muster/train/checkpoints.h"
#include "muster/train/divergence.h"
#include "muster/train/progress.h"

namespace muster::train {

struct TrainerOptions {
  TrainingLength length;
  optim::ScheduleSpec schedule;  // in samples, peak already scaled
  job::EvaluationSpec evaluation;
  job::CheckpointSpec checkpoint;
  std::int32_t slices = 1;             // virtual workers
  bool keeps_time = true;              // this rank's clock decides what is due by the clock
  bool predicts_bytes = false;         // report bits per byte as well
  std::int64_t tokens_per_sample = 0;  // report tokens per second as well
};

// What the loop runs on; all of it outlives the trainer.
struct TrainerParts {
  parallel::Strategy& strategy;
  Checkpoints& checkpoints;
  observe::Hub& hub;
  Clock& clock;
  std::function<Result<std::unique_ptr<data::BatchStream>>(const data::Cursor&)> training_data;
  std::function<Result<std::unique_ptr<data::BatchStream>>()> evaluation_data;
  std::function<std::uint64_t()> peak_memory;  // of this process, in bytes
  std::function<bool()> stop_requested;        // from any thread's point of view, cheap
  // Before each phase of each step: for heartbeats ("step 120, backward"). Cheap.
  std::function<void(Step, std::string_view)> now_doing;
};

enum class Ending : std::uint8_t { kCompleted, kEarlyStop, kStopRequested };

struct Outcome {
  Ending ending = Ending::kCompleted;
  Progress progress;
  std::vector<observe::Metric> results;  // of the last evaluation and the last step
};

class Trainer {
 public:
  Trainer(TrainerParts parts, TrainerOptions options, Progress progress);

  // An error leaves the newest checkpoint intact and the model at the last committed step.
  Result<Outcome> run();

 private:
  enum class Next : std::uint8_t { kGoOn, kStop, kStopEarly };

  Result<Next> one_step(data::BatchStream& stream);
  parallel::Flags wishes() const;
  void publish_step(const data::StepBatch& batch, const parallel::StepReport& report, double rate,
                    TimePoint began);
  Result<bool> evaluate();  // whether to go on
  bool note_evaluation(double value);
  Status save(bool best);
  double epochs_done() const;

  TrainerParts parts_;
  const TrainerOptions options_;
  Progress progress_;
  DivergenceGuard divergence_;
  Cadence evaluation_due_;
  Cadence checkpoint_due_;
  std::optional<Step> evaluated_;  // last
  std::optional<Step> saved_;
  Duration saving_{};      // not yet told with a step
  bool improved_ = false;  // by the last evaluation
  std::vector<observe::Metric> last_evaluation_;
  std::vector<observe::Metric> last_step_;
  std::int64_t epoch_size_ = 1;
};

}  // namespace muster::train
