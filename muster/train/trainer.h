#pragma once
// The step loop: data, step, bookkeeping, evaluation, checkpoints, until the training is done,
// stops itself, or is asked to stop. The same loop runs on every rank and takes the same decisions
// there: whatever one rank alone knows (signals, the clock) travels in the step's flags first. When
// the generation ends under it, it goes on in the next one from the last committed step. One
// thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/data/batch_stream.h"
#include "muster/job/spec.h"
#include "muster/observe/hub.h"
#include "muster/optim/loss_scale.h"
#include "muster/optim/lr_schedule.h"
#include "muster/parallel/strategy.h"
#include "muster/train/assignment.h"
#include "muster/train/cadence.h"
#include "muster/train/checkpoints.h"
#include "muster/train/course.h"
#include "muster/train/divergence.h"
#include "muster/train/generations.h"
#include "muster/train/gradient_dispute.h"
#include "muster/train/neighbour_copy.h"
#include "muster/train/pace.h"
#include "muster/train/position.h"
#include "muster/train/replica_guard.h"
#include "muster/train/replicas.h"
#include "muster/train/reunion.h"
#include "muster/train/state_transfer.h"
#include "muster/train/step_patience.h"
#include "muster/train/stragglers.h"

namespace muster::train {

// All begin again from an earlier step, with a state that is made anew, for a part of it is lost.
struct Return {
  std::optional<Step> checkpoint;       // whose state they take; none: that of the beginning
  Step from{0};                         // the last step that any of them had committed
  bool differ = false;                  // what was there, and nobody knows who is wrong; else:
  std::vector<LostPart> missing = {};   // those that nobody has; empty: everybody's
  std::int64_t rollbacks = 0;           // with this one
  Generation generation{0};             // in which they do
  std::optional<TimePoint> began = {};  // since when they do not train, if somebody knows
};

struct TrainerOptions {
  TrainingLength length;
  optim::ScheduleSpec schedule;  // in samples, peak already scaled
  job::EvaluationSpec evaluation;
  job::CheckpointSpec checkpoint;
  job::StragglersSpec stragglers;
  job::ReplicasSpec replicas;
  bool evaluates_average = false;  // of the weights, instead of the trained ones
  std::int32_t slices = 1;         // virtual workers,
  std::int64_t most_slices = 1;    // of which the batch has samples for so many
  std::int32_t active = 1;         // workers that compute, while there are so many;
  std::int32_t standbys = 0;       // of those beyond, so many only follow
  std::int32_t lanes = 1;          // of this worker
  std::uint64_t data = 0;          // fingerprint of the data: the same for all workers
  bool newcomer = false;           // it joins others, who have the state
  bool keeps_ranks = false;        // each rank has a part of it: see Reunion
  bool keeps_neighbours = false;   // and a copy of its neighbour's: see NeighbourCopy
  Duration join_timeout{};         // how long one that comes anew may take to get ready then
  std::optional<observe::RunStarted> started = {};  // told before anything else
  std::optional<Return> returned = {};              // the state is made anew, as this said
  comm::OpOptions op;                               // of what ranks tell each other between steps
  bool classifies = true;                           // there is an accuracy
  bool predicts_bytes = false;                      // report bits per byte as well
  std::int64_t tokens_per_sample = 0;               // report tokens per second as well
  std::optional<optim::LossScaleSpec> loss_scale = {};  // for fp16; none: no scaling
};

// Floating-point operations, for perf/mfu.
struct Flops {
  double a_sample = 0;  // that training takes, forward and backward; 0: not known
  double a_second = 0;  // that a lane could do at best
};

// What the loop runs on; all of it outlives the trainer.
struct TrainerParts {
  parallel::Strategy& strategy;
  Generations& generations;
  Checkpoints& checkpoints;
  observe::Hub& hub;
  Clock& clock;
  // The given slices of every batch from a cursor on, so many steps ahead at most (0: as usual).
  std::function<Result<std::unique_ptr<data::BatchStream>>(
      const data::Cursor&, std::vector<SliceIndex>, std::int32_t ahead)>
      training_data;
  std::function<Result<std::unique_ptr<data::BatchStream>>(std::vector<SliceIndex>)>
      evaluation_data;
  // Asked once, by the first rank after a step, with that step's batch; empty: not known.
  std::function<Result<Flops>(const data::StepBatch&)> measure_flops = {};
  std::function<std::uint64_t()> peak_memory;  // of this process, in bytes
  std::function<bool()> stop_requested;        // from any thread's point of view, cheap
  // Before each phase of each step: for heartbeats ("step 120, backward"). Cheap.
  std::function<void(Step, std::string_view)> now_doing;
};

enum class Ending : std::uint8_t {
  kCompleted,
  kEarlyStop,
  kStopRequested,
  kDismissed,  // the others go on without this worker
  kGoesBack    // to be trained again by another trainer, as Outcome::back says
};

struct Outcome {
  Ending ending = Ending::kCompleted;
  Progress progress;
  std::vector<observe::Metric> results;  // of the last evaluation and the last step
  std::optional<Return> back = {};       // with kGoesBack
};

// Time between two steps, but for evaluations.
struct Between {
  Duration saving{};     // starting a checkpoint
  Duration comparing{};  // paces and replicas, or joining: waiting for whoever is slower
};

class Trainer {
 public:
  Trainer(TrainerParts parts, TrainerOptions options, Progress progress);

  // An error leaves the model at the last committed step, and the newest checkpoint whose loss was
  // a number as the newest one.
  Result<Outcome> run();

 private:
  Result<Outcome> train();
  Result<bool> advance();  // one thing more; whether that was the last one
  Result<parallel::StepReport> compute(Step step, const data::StepBatch& batch, double rate);
  Status one_step();
  Status judge(Step step, const parallel::StepReport& report, double rate);
  Error naming_largest_weight(Error error) const;
  Status adapt_loss_scale(Step step, const parallel::StepReport& report);
  Status settle();    // what is due after the committed step
  Status conclude();  // what is due at the end
  Status begin_transfer(const Course& course, const comm::OpOptions& op);
  Status take_part_in_transfer();
  Status catch_up();
  bool has_missed_enough() const noexcept;
  Status complete_transfer();
  void tell_transfer();
  Status recover(const Error& why);
  Status regroup();  // as planned
  Status follow(std::optional<Error> why);
  void take_over();
  Duration step_limit() const;
  Status enter(const Entry& entry);
  Status reunite(const Entry& entry, const std::vector<Standing>& standings);
  Status get_position(const Reunion& reunion);
  Status get_parts(const Entry& entry, const Reunion& reunion);
  Status plan_return(const Entry& entry, const Reunion& reunion);
  Result<std::optional<Step>> agree_on_checkpoint();
  void begin_generation();
  comm::OpOptions patient_op(std::string_view label, Duration patience) const;
  Duration entry_patience() const;
  std::string describe_generation(std::optional<Duration> took) const;  // that it stands
  void tell_generation(std::string text, std::vector<std::int32_t> newcomers);
  void tell_return();
  void tell_reunion(const Reunion& reunion, Duration took);
  Status open_stream();
  void take_roles(bool copied);
  Status share_out();  // anew, after a step that was finished with inherited slices
  std::int32_t computing(std::int32_t workers) const;  // how many of so many do
  Assignment share(const std::vector<std::int32_t>& workers) const;
  std::vector<SliceIndex> slices_here() const;  // those that this rank has a part in
  Status take_up(Assignment assignment);
  void measure_pace(const data::StepBatch& batch, const parallel::StepReport& report,
                    Duration whole);
  void tell_backups();
  void tell_few_slices();
  Duration patience() const;
  Result<data::StepBatch> load_slice(SliceIndex slice) const;
  Status compare_paces();
  Status rebalance(const std::vector<Pace>& before);
  bool compares_replicas() const;
  bool replicas_due() const;  // whether or not anything is saved
  bool has_state() const noexcept { return !transfer_ || transfer_->gives(); }
  std::int32_t holders() const noexcept {  // of the state: ranks below
    return transfer_ ? transfer_->givers() : group().size;
  }
  std::int32_t holders_of_part() const;  // that this rank has
  bool guards_memory() const;
  ReplicaReport report_state() const;
  bool compares_gradients(Step step) const;
  Result<std::vector<ReplicaReport>> exchange(const ReplicaReport& mine, std::string_view what);
  // The same, and what is told of this worker stays as it is.
  Result<std::vector<ReplicaReport>> exchange_unseen(const ReplicaReport& mine,
                                                     std::string_view what);
  Result<bool> compare_replicas(bool saves);
  Status verify_entry(const Course& course);
  Status verify_reunion(const Entry& entry, const Reunion& reunion);
  Status send_away(const std::vector<Rank>& odd);
  Status settle_dispute(const std::vector<ReplicaReport>& reports);
  Status settle_among_old(const std::vector<ReplicaReport>& old, const Course& course);
  Error disagree(std::string_view since) const;
  Status roll_back(bool first_goes);
  observe::Notice return_from(Step from, Step to) const;
  void tell_rollback(Step from, Step to, std::int64_t rollbacks);
  Status look_for_wrong_bits(const Error& why);
  Status name_the_wrong();
  Status compare_gradients(Step step, std::uint64_t checksum);
  bool takes_again() noexcept;
  Status take_again();
  bool accuse(std::int32_t worker, std::string_view of_what);
  void go(std::string_view because);
  std::int32_t worker_at(Rank rank) const;
  std::string name_of_worker(std::int32_t worker) const;
  void tell_of_worker(std::int32_t worker, observe::Severity severity, std::string_view what);
  comm::OpOptions op_for(std::string_view label) const;
  Status meet(const comm::OpOptions& op);     // all ranks of the generation
  const comm::Group& group() const noexcept;  // of the present generation
  bool is_first() const noexcept;

  parallel::Flags wishes() const;
  void publish_step(const data::StepBatch& batch, const parallel::StepReport& report, double rate,
                    TimePoint began);
  void measure_flops(const data::StepBatch& batch);
  std::optional<double> flops_used(const data::StepBatch& batch, Duration took) const;
  std::vector<observe::Metric> results_of(const parallel::StepReport& report) const;
  void tell(observe::Record row);
  void tell_recovery(const Assignment& before, Duration took);
  Status evaluate();  // sets position_.next
  bool has_lost_patience() const noexcept;
  Status judge_evaluation(const std::vector<observe::Metric>& results);
  Result<parallel::EvaluationTotals> evaluate_slices();
  std::vector<observe::Metric> results_of(const parallel::EvaluationTotals& totals) const;
  Duration let_readers_finish();  // before the state is changed: how long that took
  bool steps_are_left() const { return to_int(progress_.committed) < options_.length.total_steps; }
  bool save_due() const;
  bool wants_save() const;
  bool inherits_save() const;
  // The first rank's, which alone knows its disk. kFound: that has what it inherits.
  enum class Turn : std::uint8_t { kSaves, kHasSaved, kIsBusy, kFound };
  Result<std::optional<Turn>> ask_before_comparing();
  Result<bool> save_what_is_due(bool best, std::optional<Turn> asked);
  Result<Turn> take_turn(bool best);
  Result<Turn> own_turn(bool best);
  Result<Turn> turn_of_heir();
  Result<Turn> last_turn(bool must);
  void note_turn(Turn turn, bool must);
  void put_off(bool best);
  void tell_of_doubt(bool best);
  Result<Turn> hear_first(Turn mine);
  enum class Standstill : std::uint8_t { kSave, kLeave, kEnd };
  Status wait_for_disk(Standstill why);
  Status save();
  double epochs_done() const;
  bool due_by_flag(parallel::Flag flag) const noexcept { return position_.flags.has(flag); }

  TrainerParts parts_;
  const TrainerOptions options_;
  Position position_;
  Progress& progress_ = position_.progress;
  DivergenceGuard divergence_;
  Cadence evaluation_due_;
  Cadence checkpoint_due_;
  Cadence replicas_due_;
  Cadence gradients_due_;
  Assignment assignment_;
  PaceMeter meter_;
  StragglerWatch stragglers_;
  std::int64_t compares_at_ = 0;                   // not before this step, on all ranks
  std::map<std::int32_t, std::uint32_t> backups_;  // by worker: its slices that others computed
  std::int32_t changes_in_a_row_ = 0;              // comparisons by which slices changed hands
  TimePoint paces_due_{};                          // by the first rank's clock
  StepPatience step_patience_;
  Duration waits_;  // for whoever should come to the next generation
  ReplicaGuard guard_;
  GradientDispute gradients_;
  std::optional<observe::Notice> owed_;  // whoever is first in the next generation tells it
  std::unique_ptr<data::BatchStream> stream_;
  bool finishing_ = false;  // the stream holds what a failed step lacks
  bool whole_ = true;       // false: the state is torn
  bool ruined_ = false;     // the loss of the committed weights is no number
  std::optional<NeighbourCopy> neighbours_;
  std::optional<StateTransfer> transfer_;  // while newcomers get the state, on all ranks
  std::optional<Return> back_;             // planned: it ends with that
  std::optional<TimePoint> idle_since_;    // while no generation stands
  Course joining_;                         // how that began,
  Step joined_at_{0};                      // and after which step
  bool was_first_;                         // in the generation before
  std::optional<Step> saved_;
  bool told_of_disk_ = false;    // that it is slow
  bool told_of_doubt_ = false;   // that losses keep a checkpoint from being written
  bool told_of_slices_ = false;  // that they are few
  Between between_;              // not yet told with a step
  std::vector<observe::Metric> last_step_;
  std::optional<Flops> flops_;  // once it has been asked for
  std::int64_t epoch_size_ = 1;
};

}  // namespace muster::train
