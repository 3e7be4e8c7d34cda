#include "muster/app/worker/training.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "muster/app/version/version.h"
#include "muster/app/worker/block_costs.h"
#include "muster/app/worker/build_model.h"
#include "muster/app/worker/build_strategy.h"
#include "muster/app/worker/cut_blocks.h"
#include "muster/app/worker/memory.h"
#include "muster/app/worker/model_needs.h"
#include "muster/app/worker/shared_costs.h"
#include "muster/app/worker/start_weights.h"
#include "muster/base/units.h"
#include "muster/base/utf8.h"
#include "muster/job/enum_names.h"
#include "muster/models/flop_rate.h"
#include "muster/models/generate.h"
#include "muster/models/torch_error.h"
#include "muster/observe/environment.h"

namespace muster::app {
namespace {

std::optional<optim::LossScaleSpec> loss_scale_of(const job::TrainingSpec& training) {
  if (training.precision != job::Precision::kFP16) return std::nullopt;
  const job::LossScaleSpec& scale = training.loss_scale;
  return optim::LossScaleSpec{.init_scale = scale.init_scale,
                              .growth_factor = scale.growth_factor,
                              .backoff_factor = scale.backoff_factor,
                              .growth_interval = scale.growth_interval,
                              .min_scale = scale.min_scale};
}

// What `auto` comes to: there is no other device yet (job/resolve.cc refuses cuda).
std::string_view device_of(const job::JobSpec& job) {
  const bool chosen = job.device != job::DeviceKind::kAuto;
  return job::to_string(chosen ? job.device : job::DeviceKind::kCpu);
}

// "pipeline"; of a hybrid its mesh; of plain data parallelism nothing.
std::string strategy_words(const job::JobSpec& job) {
  if (job.strategy.core() == job::StrategyType::kData) return {};
  const std::string mesh = mesh_words(job);
  return mesh.empty() ? std::string(job::to_string(job.strategy.type)) : mesh;
}

std::string headline(const job::JobSpec& job, parallel::ModelStrategy& strategy,
                     const comm::Group& group) {
  const auto workers = std::min<std::int64_t>(group.size, job.workers.count);
  const std::int64_t standbys =
      job.strategy.keeps_ranks() ? job.workers.standbys : group.size - workers;
  const std::string zero_stage =
      job.strategy.zero_stage > 1 ? fmt::format(" (ZeRO stage {})", job.strategy.zero_stage) : "";
  const std::string way = strategy_words(job);
  std::string mode = job.training.mode == job::TrainingMode::kOrdered ? "ordered" : "fast";
  if (job.training.precision != job::Precision::kF32)
    mode += fmt::format(" · {}", job::to_string(job.training.precision));
  const StateMemory memory = state_memory(strategy, group.size, offloads(job));
  return fmt::format(
      "muster {} · libtorch {} · {} · {} worker{} × {} lane{}{} · {}{} · {} parameters · {} a rank "
      "without activations{}",
      version(), TORCH_VERSION, device_of(job), workers, workers == 1 ? "" : "s", strategy.lanes(),
      strategy.lanes() == 1 ? "" : "s",
      standbys > 0 ? fmt::format(" · {} standby{}", standbys, standbys == 1 ? "" : "s") : "", mode,
      way.empty() ? "" : fmt::format(" · {}{}", way, zero_stage),
      format_count(static_cast<double>(strategy.parameter_count())), format_bytes(memory.total()),
      on_disk(memory));
}

// A model of bytes may write some that a terminal would obey, and some that are no text.
std::string harmless(std::string text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(std::string_view(text).substr(at));
    const auto first = static_cast<unsigned char>(text[at]);
    const bool controls = (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F ||
                          (length == 2 && first == 0xC2 && (text[at + 1] & 0x60) == 0);
    if (length == 0 || controls) text.replace(at, std::max<std::size_t>(length, 1), 1, '?');
    at += length == 0 || controls ? 1 : length;
  }
  return text;
}

// The objects of one training, in the order in which they lean on each other.
class Training {
 public:
  Training(Session& session, const job::JobSpec& job, DataPipelines pipelines, ComponentsPtr own)
      : session_(session),
        job_(job),
        own_(std::move(own)),
        pipelines_(std::move(pipelines)),
        epoch_size_(pipelines_.training.source().size()),
        length_(training_length(job.training, epoch_size_)) {}

  // A newcomer gets its state from the others.
  Status prepare(bool resume, bool newcomer);
  Result<train::Outcome> run(bool newcomer);
  Status warm_up();

 private:
  Status build();
  Status build_model_and_strategy();
  Status begin();
  Status resume(std::optional<Step> at_most);
  Result<train::Outcome> train(const train::TrainerOptions& options);
  Status go_back(const train::Return& back, train::TrainerOptions& options);
  Result<StrategyPlace> find_place(const models::Model& model);
  Result<Path> find_scratch() const;
  Result<std::vector<Duration>> find_costs(const models::Model& model);
  train::TrainerParts parts();
  Result<train::Flops> measure_flops(const data::StepBatch& batch);
  Result<train::TrainerOptions> options() const;
  observe::RunStarted start() const;
  void conclude(const train::Outcome& outcome, Duration took);
  std::string reason_of(train::Ending ending) const;  // for a person; empty: as planned
  Result<std::unique_ptr<models::Model>> gather_model();
  Status generate();
  Status write_sample();

  Session& session_;
  const job::JobSpec& job_;
  const ComponentsPtr own_;
  const DataPipelines pipelines_;
  const std::int64_t epoch_size_;
  const train::TrainingLength length_;
  std::vector<std::string> tensors_;   // of the whole model
  std::vector<Duration> block_costs_;  // where the model is cut by them, once they are known
  std::unique_ptr<parallel::ModelStrategy> strategy_;
  std::unique_ptr<train::Checkpoints> checkpoints_;
  train::Progress progress_;
  std::optional<train::Flops> flops_;  // once they have been measured
};

Status Training::prepare(bool resumes, bool newcomer) {
  MUSTER_TRY(build());
  checkpoints_ = std::make_unique<train::Checkpoints>(
      train::CheckpointsOptions{.folder = session_.folder().checkpoints(),
                                .job = job_.name,
                                .writes = false,  // the trainer knows who does
                                .keep = job_.checkpoint.keep,
                                .keeps_best = job_.evaluation.keep_best},
      system_files(), session_.hub(), system_clock());
  if (newcomer) return ok();
  return resumes ? resume({}) : begin();
}

Status Training::build() {
  Status built = ok();
  const Status had =
      models::catch_torch("worker/model", [&] { built = build_model_and_strategy(); });
  return had ? built : Status(with_needs(had.error(), job_, pipelines_.training.fields(), own_));
}

Status Training::build_model_and_strategy() {
  MUSTER_ASSIGN(auto model, build_model(job_, pipelines_.training.fields(), own_));
  if (const Status fits = check_weights(system_files(), job_, *model); !fits)
    return with_needs(fits.error(), job_, pipelines_.training.fields(), own_);
  tensors_ = tensor_names(*model);
  MUSTER_ASSIGN(const StrategyPlace place, find_place(*model));
  MUSTER_ASSIGN(strategy_, build_strategy(job_, std::move(model), place));
  return ok();
}

Status Training::begin() {
  progress_ = {};
  return start_from_weights(system_files(), job_.model, tensors_, *strategy_);
}

Status Training::resume(std::optional<Step> at_most) {
  MUSTER_ASSIGN(progress_, checkpoints_->resume(*strategy_, at_most));
  strategy_->loaded(progress_.optimizer_steps);
  return ok();
}

// What was made of the state so far is of no use, and what has broken off in it of no account: it
// is made anew, since a strategy that has met its group holds no more than its part, and a
// checkpoint is read into a whole one. Where all hold everything, the first one has it and the
// others, who may not see the run's folder, get it from there.
Status Training::go_back(const train::Return& back, train::TrainerOptions& options) {
  options.newcomer = !job_.strategy.keeps_ranks() && !session_.first_rank();
  options.returned = back;
  if (options.newcomer) {
    progress_ = {};
    return ok();
  }
  strategy_.reset();
  MUSTER_TRY(build());
  return back.checkpoint ? resume(back.checkpoint) : begin();
}

// Where the model is cut all ranks are there from the beginning.
Result<StrategyPlace> Training::find_place(const models::Model& model) {
  StrategyPlace place{.lanes = session_.lanes(), .group = {}, .block_costs = {}, .scratch = {}};
  place.computing = [&session = session_](std::int32_t lane, std::string_view pass) {
    session.computing(lane, pass);
  };
  MUSTER_ASSIGN(place.scratch, find_scratch());
  if (session_.communicator()) place.group = session_.communicator()->group();
  if (!needs_block_costs(job_.strategy)) return place;
  if (block_costs_.empty()) {
    MUSTER_ASSIGN(block_costs_, share_costs(session_, job_, [&] { return find_costs(model); }));
  }
  place.block_costs = block_costs_;
  return place;
}

// Where an offloaded state lies; empty: nowhere.
Result<Path> Training::find_scratch() const {
  const job::OptimizerSpec& optimizer = job_.optimizer;
  if (optimizer.offload == job::OffloadKind::kNone) return Path();
  if (optimizer.offload_folder.empty()) return session_.folder().root();
  const Status made = system_files().create_folders(optimizer.offload_folder);
  if (!made) return with_context(made.error(), "[job] optimizer.offload_folder");
  return Path(optimizer.offload_folder);
}

Result<std::vector<Duration>> Training::find_costs(const models::Model& model) {
  MUSTER_ASSIGN(const data::StepBatch batch, first_slice(pipelines_.training, job_));
  return measure_blocks(model, batch, job_);
}

Status Training::warm_up() {
  MUSTER_ASSIGN(const data::StepBatch batch, first_slice(pipelines_.training, job_));
  return strategy_->warm_up(batch);
}

Result<train::TrainerOptions> Training::options() const {
  const bool text = job_.data.type == job::DataType::kText;
  MUSTER_ASSIGN(const optim::ScheduleSpec schedule, build_schedule(job_, length_, epoch_size_));
  return train::TrainerOptions{.length = length_,
                               .schedule = schedule,
                               .evaluation = job_.evaluation,
                               .checkpoint = job_.checkpoint,
                               .stragglers = job_.stragglers,
                               .replicas = job_.replicas,
                               .evaluates_average = job_.ema.keeps() && job_.ema.evaluate,
                               .slices = static_cast<std::int32_t>(job_.training.virtual_workers),
                               .most_slices = job_.training.global_batch_size,
                               .active = static_cast<std::int32_t>(job_.workers.count),
                               .standbys = static_cast<std::int32_t>(job_.workers.standbys),
                               .lanes = strategy_->lanes(),
                               .data = pipelines_.fingerprint,
                               .keeps_ranks = job_.strategy.keeps_ranks(),
                               .keeps_neighbours = job_.strategy.redundancy > 0,
                               .join_timeout = job_.workers.join_timeout,
                               .op = build_op_options(job_.communication),
                               .classifies = job_.classifies(),
                               .predicts_bytes = text,
                               .tokens_per_sample = text ? job_.data.context_length : 0,
                               .loss_scale = loss_scale_of(job_.training)};
}

train::TrainerParts Training::parts() {
  const data::BatchStreamOptions stream = stream_options(job_);
  data::BatchStreamOptions evaluation = data::evaluation_options(stream);
  evaluation.batch = job_.evaluation.batch_size;
  return {
      .strategy = *strategy_,
      .generations = session_,
      .checkpoints = *checkpoints_,
      .hub = session_.hub(),
      .clock = system_clock(),
      .training_data =
          [this, stream](const data::Cursor& cursor, std::vector<SliceIndex> own,
                         std::int32_t ahead) {
            data::BatchStreamOptions options = stream;
            options.own = std::move(own);
            if (ahead > 0) options.prefetch = std::min(options.prefetch, ahead);
            return data::BatchStream::create(pipelines_.training, options, cursor, system_clock());
          },
      .evaluation_data =
          [this, evaluation](std::vector<SliceIndex> own) {
            data::BatchStreamOptions options = evaluation;
            options.own = std::move(own);
            return data::BatchStream::create(pipelines_.evaluation, options, {}, system_clock());
          },
      .measure_flops = [this](const data::StepBatch& batch) { return measure_flops(batch); },
      .peak_memory = [] { return observe::peak_memory(system_files()); },
      .stop_requested = [this] { return session_.stop_requested(); },
      .now_doing = [this](Step step, std::string_view phase) { session_.doing(step, phase); }};
}

// Of the whole model, block by block, whatever the ranks have of it.
Result<train::Flops> Training::measure_flops(const data::StepBatch& batch) {
  if (flops_) return *flops_;
  job::JobSpec job = job_;
  job.training.recompute.clear();                // what is computed twice counts once
  job.model.moe.expert_capacity_factor.reset();  // and no token is dropped
  train::Flops flops;
  MUSTER_TRY(models::catch_torch("worker/flops", [&]() -> Status {
    MUSTER_ASSIGN(const auto model, build_model(job, pipelines_.training.fields(), own_));
    MUSTER_ASSIGN(flops.a_sample, count_flops(*model, batch, job));
    flops.a_second = models::measure_flop_rate(compute_of(job_.training).precision, model->device(),
                                               system_clock());
    return ok();
  }));
  return flops_.emplace(flops);
}

observe::RunStarted Training::start() const {
  const data::StepPlan plan({.epoch_size = epoch_size_,
                             .batch = job_.training.global_batch_size,
                             .slices = static_cast<std::int32_t>(job_.training.virtual_workers)});
  return {.name = job_.name,
          .headline = headline(job_, *strategy_, session_.communicator()->group()),
          .libtorch = TORCH_VERSION,
          .run_folder = session_.folder().root().string(),
          .workers = session_.communicator()->group().size,
          .slices = job_.training.virtual_workers,
          .parameters = strategy_->parameter_count(),
          .first_step = progress_.committed,
          .samples_seen = progress_.cursor.samples_seen,
          .total_steps = length_.total_steps,
          .total_samples = plan.at(Step{length_.total_steps}).samples_seen,
          .epochs = static_cast<double>(length_.total_steps) /
                    static_cast<double>(length_.steps_per_epoch),
          .epoch_size = epoch_size_,
          .batch = job_.training.global_batch_size};
}

Result<train::Outcome> Training::train(const train::TrainerOptions& options) {
  train::Trainer trainer(parts(), options, progress_);
  return trainer.run();
}

Result<train::Outcome> Training::run(bool newcomer) {
  const TimePoint began = system_clock().now();
  MUSTER_ASSIGN(train::TrainerOptions trainer_options, options());
  trainer_options.newcomer = newcomer;
  if (!newcomer) trainer_options.started = start();
  MUSTER_ASSIGN(train::Outcome outcome, train(trainer_options));
  while (outcome.ending == train::Ending::kGoesBack) {
    MUSTER_TRY(go_back(*outcome.back, trainer_options));
    trainer_options.started = start();
    MUSTER_ASSIGN(outcome, train(trainer_options));
  }
  if (outcome.ending == train::Ending::kDismissed) return outcome;
  if (outcome.ending != train::Ending::kStopRequested) MUSTER_TRY(generate());
  conclude(outcome, system_clock().now() - began);
  return outcome;
}

// On the first rank, where several hold parts of the model or compute with it together; else none.
Result<std::unique_ptr<models::Model>> Training::gather_model() {
  if (strategy_->holds_all() && strategy_->ranks_per_replica() == 1)
    return std::unique_ptr<models::Model>();
  MUSTER_ASSIGN(const parallel::State state, strategy_->gather_state(Rank{0}));
  if (!session_.first_rank()) return std::unique_ptr<models::Model>();
  MUSTER_ASSIGN(auto model, build_model(job_, pipelines_.training.fields(), own_));
  fill(*model, state.model);
  return model;
}

Status Training::generate() {
  if (job_.generate.length == 0) return ok();
  const bool averages = job_.ema.keeps() && job_.ema.evaluate;
  if (averages) MUSTER_TRY(strategy_->use_average(true));
  Status generated = write_sample();
  if (averages) MUSTER_TRY(strategy_->use_average(false));
  return generated;
}

Status Training::write_sample() {
  MUSTER_ASSIGN(const auto gathered, gather_model());
  if (!session_.first_rank()) return ok();
  const models::GenerateOptions options{.length = job_.generate.length,
                                        .temperature = job_.generate.temperature,
                                        .context = job_.data.context_length};
  MUSTER_ASSIGN(
      const std::string text,
      models::generate_text(gathered ? *gathered : strategy_->model(), job_.generate.prompt,
                            options, RandomStream(job_.seed, "generate")));
  session_.hub().publish(observe::Notice{
      .text = fmt::format("a sample of what the model writes:\n{}", harmless(text))});
  return ok();
}

std::string Training::reason_of(train::Ending ending) const {
  switch (ending) {
    case train::Ending::kStopRequested:
      return "as asked, checkpoint written";
    case train::Ending::kEarlyStop:
      return "stopped early: no progress in the last evaluations";
    case train::Ending::kDismissed:
    case train::Ending::kGoesBack:
    case train::Ending::kCompleted:
      break;
  }
  return to_int(progress_.committed) >= length_.total_steps
             ? "it was complete already; raise training.epochs or training.max_steps"
             : "";
}

void Training::conclude(const train::Outcome& outcome, Duration took) {
  session_.hub().publish(
      observe::RunEnded{.step = outcome.progress.committed,
                        .completed = outcome.ending != train::Ending::kStopRequested,
                        .reason = reason_of(outcome.ending),
                        .took = took,
                        .results = outcome.results});
}

}  // namespace

Result<train::Outcome> run_training(Session& session, const job::JobSpec& job,
                                    DataPipelines pipelines, const WorkerOptions& options) {
  Training training(session, job, std::move(pipelines), options.own);
  const bool newcomer = job.strategy.keeps_ranks() ? session.comes_anew() : options.join;
  MUSTER_TRY(training.prepare(options.resume, newcomer));
  if (newcomer && !job.strategy.keeps_ranks()) {
    MUSTER_TRY(training.warm_up());
    MUSTER_ASSIGN(const bool needed, session.join());
    if (!needed)
      return train::Outcome{.ending = train::Ending::kDismissed, .progress = {}, .results = {}};
  }
  return training.run(newcomer);
}

}  // namespace muster::app
