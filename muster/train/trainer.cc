#include "muster/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "muster/base/phases.h"
#include "muster/base/units.h"
#include "muster/observe/gib.h"
#include "muster/observe/phase_timer.h"
#include "muster/train/largest_weight.h"

namespace muster::train {
namespace {

using observe::Phase;
namespace metric = observe::metric;

constexpr std::int64_t kStepsPerMemoryReading = 20;

// `between`: what has come since the step before costs this one.
observe::PhaseTimes phases_of(const data::StepBatch& batch, const parallel::StepReport& report,
                              Duration step, const Between& between) {
  observe::PhaseTimes times;
  const auto set = [&](Phase phase, Duration d) {
    times.phases[static_cast<std::size_t>(phase)] = d;
  };
  set(Phase::kDataWait, batch.waited);
  set(Phase::kForward, report.times.forward);
  set(Phase::kBackward, report.times.backward);
  set(Phase::kExposedComm, report.times.exposed_communication + between.comparing);
  set(Phase::kUpdate, report.times.update);
  set(Phase::kCheckpointStall, report.times.checkpoint_stall + between.saving);
  times.step = step + between.saving + between.comparing;
  times.bytes_on_wire = report.bytes_reduced;
  return times;
}

std::string eval_metric(const std::string& own) { return "eval/" + own; }

// By which evaluations are compared.
std::string decisive_metric(const job::EvaluationSpec& evaluation) {
  switch (evaluation.metric) {
    case job::MetricKind::kOwn:
      return eval_metric(evaluation.own_metric);
    case job::MetricKind::kAccuracy:
      return std::string(metric::kEvalAccuracy);
    case job::MetricKind::kLoss:
      break;
  }
  return std::string(metric::kEvalLoss);
}

}  // namespace

Trainer::Trainer(TrainerParts parts, TrainerOptions options, Progress progress)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      divergence_(progress.first_loss),
      evaluation_due_(options_.evaluation.every, options_.length, parts_.clock.now()),
      checkpoint_due_(options_.checkpoint.every, options_.length, parts_.clock.now()),
      replicas_due_(options_.replicas.compare_every, options_.length, parts_.clock.now()),
      gradients_due_(options_.replicas.compare_gradients, options_.length, parts_.clock.now()),
      stragglers_(options_.stragglers.tell_factor, options_.stragglers.evict_factor),
      waits_(options_.op.timeout),
      guard_(parts_.strategy),
      whole_(!options_.newcomer),
      was_first_(!options_.newcomer && is_first()) {
  progress_ = progress;
  if (options_.returned) position_.rollbacks = options_.returned->rollbacks;
  if (!options_.loss_scale)
    progress_.loss_scale.reset();
  else if (!progress_.loss_scale)
    progress_.loss_scale = optim::initial_loss_scale(*options_.loss_scale);
  assignment_ = share(parts_.generations.current().workers);
  if (options_.keeps_neighbours && group().size > 1) neighbours_.emplace(parts_.clock);
  if (to_int(progress.committed) > 0) saved_ = progress.committed;  // it came from a checkpoint
  position_.settled = !progress_.owes_evaluation;
  const std::string metric = decisive_metric(options_.evaluation);
  if (forget_other_best(progress_, metric) && is_first())
    parts_.hub.publish(observe::Notice{
        .severity = observe::Severity::kWarning,
        .text = fmt::format("the best evaluation so far was of another metric than {} "
                            "(evaluation.metric): which one is best is counted anew",
                            metric)});
}

Result<Outcome> Trainer::run() {
  auto outcome = train();
  if (!outcome && ruined_ && is_first()) parts_.checkpoints.set_aside(progress_.committed);
  return outcome;
}

Result<Outcome> Trainer::train() {
  if (options_.started) tell(*options_.started);
  if (options_.returned && !options_.newcomer) tell_return();
  if (const Status entered = enter(parts_.generations.current()); !entered)
    MUSTER_TRY(recover(entered.error()));
  for (bool over = false; !over;) {
    Result<bool> advanced = advance();
    if (advanced) {
      over = *advanced;
    } else {
      MUSTER_TRY(recover(advanced.error()));
    }
  }
  Outcome outcome{.progress = progress_, .results = position_.last_evaluation};
  if (position_.next == Next::kStop) outcome.ending = Ending::kStopRequested;
  if (position_.next == Next::kStopEarly) outcome.ending = Ending::kEarlyStop;
  if (position_.next == Next::kLeave) outcome.ending = Ending::kDismissed;
  if (back_) outcome.ending = Ending::kGoesBack;
  outcome.back = back_;
  outcome.results.insert(outcome.results.end(), last_step_.begin(), last_step_.end());
  return outcome;
}

Result<bool> Trainer::advance() {
  if (back_) return true;
  if (position_.next == Next::kLeave) {
    MUSTER_TRY(parts_.checkpoints.finish());
    return true;
  }
  if (!position_.settled) {
    MUSTER_TRY(settle());
    return false;
  }
  if (position_.next == Next::kGoOn && has_lost_patience()) position_.next = Next::kStopEarly;
  if (position_.next == Next::kGoOn && steps_are_left()) {
    MUSTER_TRY(one_step());
    return false;
  }
  if (transfer_) {
    MUSTER_TRY(complete_transfer());
    return false;
  }
  MUSTER_TRY(conclude());
  return true;
}

Result<parallel::StepReport> Trainer::compute(Step step, const data::StepBatch& batch,
                                              double rate) {
  parts_.now_doing(step, kComputingGradients);
  std::optional<double> loss_scale;
  if (progress_.loss_scale) loss_scale = progress_.loss_scale->scale;
  std::function<Result<data::StepBatch>(SliceIndex)> backup;
  if (options_.stragglers.backup) backup = [this](SliceIndex slice) { return load_slice(slice); };
  std::function<Status(std::uint64_t)> check_sums;
  if (compares_gradients(step))
    check_sums = [&](std::uint64_t checksum) { return compare_gradients(step, checksum); };
  waits_ = step_limit();
  return parts_.strategy.step({.batch = batch,
                               .finishes = finishing_,
                               .step = step,
                               .learning_rate = rate,
                               .flags = wishes(),
                               .before_update =
                                   [&] {
                                     guard_.before_update();
                                     whole_ = false;
                                     parts_.now_doing(step, kUpdating);
                                     return let_readers_finish();
                                   },
                               .rolled_back = [this, whole = whole_] { whole_ = whole; },
                               .patience = backup ? patience() : Duration{},
                               .load_slice = backup,
                               .loss_scale = loss_scale,
                               .check_sums = check_sums,
                               .timeout = waits_});
}

Status Trainer::one_step() {
  const Step step = next(progress_.committed);
  const TimePoint began = parts_.clock.now();
  MUSTER_TRY(take_part_in_transfer());
  if (has_state()) parts_.generations.tell_whole();
  if (neighbours_) neighbours_->begin(parts_.strategy, progress_.committed);
  parts_.now_doing(step, kWaitingForData);
  MUSTER_ASSIGN(const std::optional<data::StepBatch> batch, stream_->next());
  if (!batch)
    return fail(ErrorCode::kInternal, "[train/step] the stream of training data has ended");
  const double rate =
      optim::learning_rate_at(options_.schedule, progress_.cursor.samples_seen, batch->samples);
  const auto stepped = compute(step, *batch, rate);
  if (!stepped && takes_again()) return take_again();
  if (!stepped) return look_for_wrong_bits(stepped.error());
  whole_ = true;
  const parallel::StepReport& report = *stepped;
  progress_.committed = step;
  // At once: an evaluation or a save may take long, and whoever dies in it is made up for.
  if (neighbours_) neighbours_->begin(parts_.strategy, step);
  progress_.cursor = batch->after;
  if (!report.overflow) ++progress_.optimizer_steps;
  if (guards_memory())
    guard_.after_update(step);
  else
    guard_.forget_update();
  position_.settled = false;
  position_.flags = report.flags;
  // Among sums kept from another generation the flag may be of a plan that a death has overtaken.
  if (finishing_) position_.flags.clear(parallel::Flag::kRegroup);
  if (const Status sound = judge(step, report, rate); !sound)
    return look_for_wrong_bits(sound.error());
  tell(observe::StepCommitted{.step = step,
                              .generation = group().generation,
                              .epoch = batch->before.epoch,
                              .begin = batch->before.position,
                              .end = batch->before.position + batch->samples,
                              .roll = batch->roll});
  waits_ = options_.op.timeout;
  step_patience_.took(parts_.clock.now() - began);
  measure_pace(*batch, report, parts_.clock.now() - began);
  publish_step(*batch, report, rate, began);
  measure_flops(*batch);
  MUSTER_TRY(parts_.checkpoints.check());
  return finishing_ ? share_out() : ok();
}

// Where gradients overflowed, the loss may be anything.
Status Trainer::judge(Step step, const parallel::StepReport& report, double rate) {
  if (options_.loss_scale) MUSTER_TRY(adapt_loss_scale(step, report));
  if (report.overflow) return ok();
  if (auto sound = divergence_.observe(step, report.loss, rate); !sound)
    return naming_largest_weight(std::move(sound).error());
  progress_.first_loss = divergence_.first_loss();
  position_.losses = divergence_.trend();
  return ok();
}

Error Trainer::naming_largest_weight(Error error) const {
  if (parts_.strategy.behind()) return error;  // it is still getting them
  if (const auto largest = largest_weight(parts_.strategy.model_state()))
    error.message +=
        fmt::format("; the largest number among the weights of this worker is {:.4g}, in {}",
                    largest->magnitude, largest->name);
  return error;
}

Status Trainer::adapt_loss_scale(Step step, const parallel::StepReport& report) {
  const optim::LossScale before = *progress_.loss_scale;
  auto after = optim::next_loss_scale(*options_.loss_scale, before, report.overflow.has_value());
  if (!after)
    return with_context(
        std::move(after).error(),
        fmt::format("[train/step] step {}, overflow of {}", to_int(step), *report.overflow));
  progress_.loss_scale = *after;
  if (!report.overflow) return ok();
  tell(observe::Notice{
      .severity = observe::Severity::kWarning,
      .text = fmt::format("step {} overflows in fp16 at loss scale {:g}, first in the gradient of "
                          "{}: it changes nothing, and the scale is {:g} from now on",
                          to_int(step), before.scale, *report.overflow, after->scale)});
  return ok();
}

Status Trainer::settle() {
  const Step step = progress_.committed;
  if (transfer_ && (due_by_flag(parallel::Flag::kCaughtUp) || has_missed_enough()))
    return complete_transfer();
  MUSTER_ASSIGN(const auto turn, ask_before_comparing());
  MUSTER_ASSIGN(const bool stands, compare_replicas(turn == Turn::kSaves));
  if (!stands) return ok();
  // After going back steps come again that were evaluated and saved already.
  const bool evaluates = (evaluation_due_.due(step) || due_by_flag(parallel::Flag::kEvaluate) ||
                          progress_.owes_evaluation) &&
                         (!position_.evaluated || *position_.evaluated < step);
  if (due_by_flag(parallel::Flag::kStop)) {
    position_.next = Next::kStop;
    progress_.owes_evaluation = evaluates;  // whoever stops does not want to wait for it
  }
  if (position_.next == Next::kGoOn && steps_are_left() && !due_by_flag(parallel::Flag::kRegroup)) {
    MUSTER_TRY(compare_paces());
    if (due_by_flag(parallel::Flag::kStop)) return ok();  // settled as such, then
  }
  if (position_.next == Next::kGoOn) {
    if (evaluates) MUSTER_TRY(evaluate());
    const bool improved =
        position_.evaluated == step && progress_.best && progress_.best->step == step;
    const bool best = improved && options_.evaluation.keep_best;
    MUSTER_ASSIGN(const bool saves, save_what_is_due(best, turn));
    if (evaluates || saves) step_patience_.disturb();
  }
  position_.settled = true;
  const bool regroups = position_.next == Next::kGoOn && due_by_flag(parallel::Flag::kRegroup);
  return regroups ? regroup() : ok();
}

parallel::Flags Trainer::wishes() const {
  parallel::Flags flags;
  if (parts_.stop_requested()) flags.set(parallel::Flag::kStop);
  // A change has newcomers begin anew: one at a time, but where somebody leaves, which may have to
  // be soon. All say so: the flags of who computes nothing do not travel.
  if (parts_.generations.changing() && (!transfer_ || parts_.generations.loses_somebody()))
    flags.set(parallel::Flag::kRegroup);
  if (transfer_ && is_first() && transfer_->done().value_or(false))
    flags.set(parallel::Flag::kCaughtUp);
  const TimePoint now = parts_.clock.now();
  if (is_first() && now >= paces_due_) flags.set(parallel::Flag::kCompare);
  if (is_first() && evaluation_due_.clock_due(now)) flags.set(parallel::Flag::kEvaluate);
  if (is_first() && checkpoint_due_.clock_due(now)) flags.set(parallel::Flag::kCheckpoint);
  return flags;
}

double Trainer::epochs_done() const {
  return static_cast<double>(progress_.cursor.epoch) +
         static_cast<double>(progress_.cursor.position) / static_cast<double>(epoch_size_);
}

void Trainer::tell(observe::Record row) {
  parts_.hub.publish(row);
  auto& rows = position_.rows;
  if (rows.size() >= Position::kMostRows) rows.pop_front();
  rows.push_back(std::move(row));
}

// Of a step that overflowed only the next scale is worth telling, and what was rolled back.
std::vector<observe::Metric> Trainer::results_of(const parallel::StepReport& report) const {
  std::vector<observe::Metric> results;
  if (!report.overflow)
    results = {{std::string(metric::kTrainLoss), report.loss},
               {std::string(metric::kGradNorm), report.grad_norm}};
  if (progress_.loss_scale)
    results.push_back({std::string(metric::kLossScale), progress_.loss_scale->scale});
  if (report.rollbacks)
    results.push_back({std::string(metric::kRollbacks), static_cast<double>(*report.rollbacks)});
  return results;
}

void Trainer::publish_step(const data::StepBatch& batch, const parallel::StepReport& report,
                           double rate, TimePoint began) {
  const Duration took = parts_.clock.now() - began;
  observe::Metrics row{.step = progress_.committed,
                       .epoch = epochs_done(),
                       .samples_seen = progress_.cursor.samples_seen,
                       .time = parts_.clock.wall(),
                       .values = {}};
  const double per_second = static_cast<double>(batch.samples) / to_seconds(took);
  row.values = results_of(report);
  if (!report.overflow) last_step_ = {row.values.front()};
  row.values.push_back({std::string(metric::kLearningRate), rate});
  row.values.push_back({std::string(metric::kSamplesPerSecond), per_second});
  if (!report.overflow)
    row.values.insert(row.values.end(), report.model_metrics.begin(), report.model_metrics.end());
  if (options_.tokens_per_sample > 0) {
    row.values.push_back({std::string(metric::kTokensPerSecond),
                          per_second * static_cast<double>(options_.tokens_per_sample)});
  }
  if (to_int(progress_.committed) % kStepsPerMemoryReading == 1) {
    row.values.push_back({std::string(metric::kPeakRss), observe::to_gib(parts_.peak_memory())});
  }
  if (const auto used = flops_used(batch, took))
    row.values.push_back({std::string(metric::kMfu), *used});
  phases_of(batch, report, took, std::exchange(between_, {})).append_to(row);
  tell(std::move(row));
}

// Once, so that from the next step on it can be told how much of what there is they use.
void Trainer::measure_flops(const data::StepBatch& batch) {
  if (!is_first() || flops_ || !parts_.measure_flops) return;
  const auto has_samples = [](const data::SliceBatch& slice) { return slice.samples > 0; };
  if (std::ranges::none_of(batch.slices, has_samples)) return;
  parts_.now_doing(progress_.committed, "measuring what the model costs");
  const auto measured = parts_.measure_flops(batch);
  flops_ = measured ? *measured : Flops{};
  if (!measured)
    parts_.hub.publish(observe::Notice{
        .severity = observe::Severity::kWarning,
        .text = fmt::format("{} is not told: {}", metric::kMfu, measured.error().message)});
}

// Of what the lanes that computed the step could do, [0, 1]; nothing where it was not the whole
// one.
std::optional<double> Trainer::flops_used(const data::StepBatch& batch, Duration took) const {
  if (!is_first() || finishing_ || !flops_ || flops_->a_sample == 0) return std::nullopt;
  std::vector<Rank> owners = assignment_.owners;
  std::ranges::sort(owners);
  const auto replicas = std::ranges::unique(owners).begin() - owners.begin();
  const auto lanes = static_cast<double>(options_.lanes * parts_.strategy.ranks_per_replica()) *
                     static_cast<double>(replicas);
  return flops_->a_sample * static_cast<double>(batch.samples) /
         (to_seconds(took) * flops_->a_second * lanes);
}

Duration Trainer::let_readers_finish() {
  return parts_.checkpoints.wait_until_copied() +
         (transfer_ ? transfer_->wait_until_copied() : Duration{}) +
         (neighbours_ ? neighbours_->wait() : Duration{});
}

Result<parallel::EvaluationTotals> Trainer::evaluate_slices() {
  MUSTER_ASSIGN(auto stream, parts_.evaluation_data(slices_here()));
  std::vector<parallel::EvaluationTotals> by_slice(static_cast<std::size_t>(options_.slices));
  for (;;) {
    MUSTER_ASSIGN(std::optional<data::StepBatch> batch, stream->next());
    if (!batch) break;
    MUSTER_TRY(parts_.strategy.evaluate(*batch, by_slice));
  }
  return parts_.strategy.combine(by_slice);
}

std::vector<observe::Metric> Trainer::results_of(const parallel::EvaluationTotals& totals) const {
  const double loss = totals.loss / totals.targets;
  std::vector<observe::Metric> results = {{std::string(metric::kEvalLoss), loss}};
  if (options_.classifies)
    results.push_back({std::string(metric::kEvalAccuracy), totals.correct / totals.targets});
  if (options_.predicts_bytes)
    results.push_back({std::string(metric::kEvalBitsPerByte), loss / std::numbers::ln2});
  const std::vector<std::string>& own = options_.evaluation.metrics;
  for (std::size_t i = 0; i < own.size(); ++i)
    results.push_back({eval_metric(own[i]), totals.measured.at(i) / totals.targets});
  return results;
}

// The losses of steps are those of the weights before: only this one is of the last update's.
Status Trainer::judge_evaluation(const std::vector<observe::Metric>& results) {
  const double loss = results.front().value;
  if (std::isfinite(loss)) return ok();
  ruined_ = true;
  return naming_largest_weight(
      fail(ErrorCode::kNumeric,
           fmt::format("[train/evaluate] the loss of the evaluation after step {} is {}: lower "
                       "optimizer.learning_rate, lengthen schedule.warmup or set "
                       "training.max_grad_norm",
                       to_int(progress_.committed), loss)));
}

Status Trainer::evaluate() {
  parts_.now_doing(progress_.committed, "evaluating");
  if (options_.evaluates_average) {
    between_.saving += let_readers_finish();
    MUSTER_TRY(parts_.strategy.use_average(true));
  }
  const Result<parallel::EvaluationTotals> evaluated = evaluate_slices();
  if (options_.evaluates_average) MUSTER_TRY(parts_.strategy.use_average(false));
  MUSTER_ASSIGN(const parallel::EvaluationTotals totals, evaluated);
  const std::vector<observe::Metric>& results = position_.last_evaluation = results_of(totals);
  tell(observe::Metrics{.step = progress_.committed,
                        .epoch = epochs_done(),
                        .samples_seen = progress_.cursor.samples_seen,
                        .time = parts_.clock.wall(),
                        .values = results});
  MUSTER_TRY(judge_evaluation(results));
  position_.evaluated = progress_.committed;
  progress_.owes_evaluation = false;
  evaluation_due_.restart(parts_.clock.now());
  const std::string metric = decisive_metric(options_.evaluation);
  const auto decides = std::ranges::find(results, metric, &observe::Metric::name);
  note_evaluation(progress_, metric, options_.evaluation.higher_is_better(), decides->value);
  if (has_lost_patience()) position_.next = Next::kStopEarly;
  return ok();
}

bool Trainer::has_lost_patience() const noexcept {
  const std::int64_t patience = options_.evaluation.early_stop_patience;
  return patience > 0 && progress_.evaluations_without_gain >= patience;
}

}  // namespace muster::train
