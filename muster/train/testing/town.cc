#include "muster/train/testing/town.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/wrap/forward.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/models/create.h"
#include "muster/models/testing/foreign_device.h"
#include "muster/parallel/data_parallel.h"

namespace muster::train {
namespace {

constexpr std::int64_t kBatch = 16;
constexpr std::int32_t kSlices = 8;
constexpr std::int64_t kWidth = 12;
constexpr Duration kPatience = std::chrono::seconds(8);  // where a disk may be slow
constexpr double kFarSlower = 20;  // than threads that share a core seem to be by chance

class Numbers final : public data::Source {
 public:
  explicit Numbers(Duration wait) : wait_(wait) {}
  std::int64_t size() const noexcept override { return 200; }
  const std::vector<data::FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    if (wait_ > Duration{}) std::this_thread::sleep_for(wait_);
    std::int64_t place = index;
    for (float& value : into[0].as<float>()) value = static_cast<float>(place++ % 13) - 6.0F;
    into[1].as<std::int64_t>()[0] = index % 10;
    return ok();
  }

 private:
  const std::vector<data::FieldSpec> fields_{{"image", DType::kF32, {kWidth}},
                                             {"label", DType::kI64, {}}};
  const Duration wait_;
};

class Inhabitant final : public Generations {
 public:
  Inhabitant(Town& town, std::int32_t worker)
      : town_(town), worker_(worker), entry_(town.wait(worker, Generation{0}).value()) {}
  const Entry& current() const noexcept override { return entry_; }
  bool changing() const override {
    return town_.generation() > entry_.communicator->group().generation;
  }
  bool outlives(const Error& why) const override {
    return why.code == ErrorCode::kPeerLost || why.code == ErrorCode::kCancelled;
  }
  Result<std::optional<Entry>> next(const std::optional<Error>&, Duration) override {
    if (leaving()) return std::optional<Entry>();
    MUSTER_ASSIGN(entry_, town_.wait(worker_, entry_.communicator->group().generation));
    return std::optional(entry_);
  }
  void tell_whole() override {}
  bool loses_somebody() const override { return !town_.goes_on_with(entry_.workers); }
  void resign() override {}
  bool leaving() const noexcept override { return town_.has_dismissed(worker_); }
  void quarantine(const Error&) override { town_.quarantine(worker_); }

 private:
  Town& town_;
  const std::int32_t worker_;
  Entry entry_;
};

// DataParallel in a memory that fails once, on a link that does, or in a process that dies; and
// among others who come.
class Faulty final : public parallel::Strategy {
 public:
  Faulty(std::unique_ptr<parallel::DataParallel> inner, Town& town, std::int32_t worker,
         const Faults& faults)
      : inner_(std::move(inner)),
        town_(town),
        foreign_(faults.on_foreign_device),
        cut_(faults.parts),
        breaks_(faults.breaks),
        death_(faults.death),
        before_step_(faults.before_step),
        worker_(worker) {
    if (worker == 0) join_ = faults.join;
    for (const Flip& flip : faults.flips)
      if (flip.worker == worker) flip_ = flip;
    if (faults.farewell && faults.farewell->worker == worker) leaves_at_ = faults.farewell->step;
  }

  Result<parallel::StepReport> step(const parallel::StepInput& input) override {
    const std::int64_t step = to_int(input.step);
    const bool is_well_made = made_ == made_of_state();
    if (before_step_) before_step_(worker_, step);
    if (join_ && join_->step == step && --join_->time == 0)
      town_.invite(std::exchange(join_, {})->workers);
    if (death_ && death_->worker == worker_ && death_->step == step) {
      town_.bury(worker_);
      return fail(ErrorCode::kInternal, "dead");
    }
    if (leaves_at_ == step) town_.dismiss(worker_);
    if (breaks_ && breaks_->step == step) return break_at(input);
    if (flip_ && flip_->of_gradients && step == flip_->step) {
      town_.spoil_sum(worker_);
      flip_.reset();
    }
    if (flip_ && !flip_->by_update && step == flip_->step + 1) flip(step);
    auto report = inner_->step(input);
    if (flip_ && flip_->by_update && report && step == flip_->step) flip(step);
    EXPECT_TRUE(!report || is_well_made) << "before step " << step;
    if (report) town_.trained(step);
    made_ = made_of_state();
    return report;
  }
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override {
    made_ = made_of_state();
    return inner_->enter(std::move(communicator), owners);
  }
  std::int32_t part_of(Rank rank) const override { return cut_ > 0 ? to_int(rank) % cut_ : 0; }
  std::vector<parallel::StateSlice> replicated_state() override {
    return cut_ > 0 ? std::vector<parallel::StateSlice>() : Strategy::replicated_state();
  }
  std::optional<Step> kept() const override { return inner_->kept(); }
  void fall_behind() override { inner_->fall_behind(); }
  bool behind() const noexcept override { return inner_->behind(); }
  Status catch_up() override { return inner_->catch_up(); }
  Status use_average(bool average) override { return inner_->use_average(average); }
  Status evaluate(const data::StepBatch& batch,
                  std::span<parallel::EvaluationTotals> by_slice) override {
    return inner_->evaluate(batch, by_slice);
  }
  Result<parallel::EvaluationTotals> combine(
      std::span<const parallel::EvaluationTotals> by_slice) override {
    return inner_->combine(by_slice);
  }
  std::vector<parallel::StateSlice> model_state() override { return inner_->model_state(); }
  std::vector<parallel::StateSlice> optimizer_state() override { return inner_->optimizer_state(); }
  void loaded(std::int64_t steps) override { inner_->loaded(steps); }

 private:
  // As if the link had broken before this rank heard of the last sum: it has not applied the step.
  Result<parallel::StepReport> break_at(const parallel::StepInput& input) {
    const Break here = *std::exchange(breaks_, std::nullopt);
    const std::size_t others = town_.size() - 1;
    std::vector<std::vector<std::byte>> before;
    for (const auto& slice : state_here(*this))
      before.emplace_back(slice.tensor.bytes.begin(), slice.tensor.bytes.end());
    auto report = inner_->step(input);
    if (worker_ != here.worker) {
      town_.did(here.step);
      return report;
    }
    for (auto from = before.begin(); const auto& slice : state_here(*this))
      std::ranges::copy(*from++, slice.tensor.bytes.begin());
    wrote(here.step);
    EXPECT_TRUE(town_.wait_until_done(here.step, others));
    town_.break_up();
    return fail(ErrorCode::kPeerLost, "the link broke");
  }

  void flip(std::int64_t step) {
    auto all = state_here(*this);
    const std::span<std::byte> bytes = all[flip_->tensor % all.size()].tensor.bytes;
    const Flip how = *std::exchange(flip_, std::nullopt);
    if (how.swaps)
      std::ranges::swap_ranges(bytes.first(8), bytes.last(8));
    else if (how.to_nan)
      std::ranges::fill(bytes.first(4), std::byte{0xFF});
    else
      bytes[1] ^= std::byte{4};
    wrote(step);
  }

  // As weights that others have borrowed: what is there anew with each step, and with enter().
  std::vector<std::byte> made_of_state() {
    if (cut_ == 0) return {};
    const std::span<const std::byte> bytes = inner_->model_state().front().tensor.bytes;
    return {bytes.begin(), bytes.end()};
  }

  // SGD's state does not say how many updates it has seen.
  void wrote(std::int64_t step) {
    if (foreign_) inner_->loaded(step);
  }

  const std::unique_ptr<parallel::DataParallel> inner_;
  Town& town_;
  const bool foreign_;
  const std::int32_t cut_;
  std::vector<std::byte> made_;
  std::optional<Flip> flip_;
  std::optional<Break> breaks_;
  const std::optional<Death> death_;
  std::int64_t leaves_at_ = 0;
  std::optional<Join> join_;
  const std::function<void(std::int32_t, std::int64_t)> before_step_;
  const std::int32_t worker_;
};

// Where a bit of this rank's sum may be wrong.
class SpoiltSums final : public comm::Forward {
 public:
  SpoiltSums(comm::CommunicatorPtr inner, std::size_t byte, std::function<bool()> spoils)
      : Forward(std::move(inner)), byte_(byte), spoils_(std::move(spoils)) {}

  comm::Work submit(comm::Op op, const comm::OpOptions& options) override {
    const auto* sum = std::get_if<comm::AllReduce>(&op);
    if (sum == nullptr || !options.label.starts_with("gradients/") || !spoils_())
      return inner().submit(std::move(op), options);
    const std::span<std::byte> bytes = sum->buffer.bytes;
    const auto state = std::make_shared<comm::WorkState>();
    inner()
        .submit(std::move(op), options)
        .on_done([state, bytes, at = byte_](const Status& outcome) {
          bytes[at] ^= std::byte{4};
          state->finish(outcome);
        });
    return comm::Work(state);
  }

 protected:
  Result<comm::CommunicatorPtr> wrap(comm::CommunicatorPtr part) override { return part; }

 private:
  const std::size_t byte_;
  const std::function<bool()> spoils_;
};

std::unique_ptr<parallel::DataParallel> make_strategy(const Faults& faults) {
  const models::ScopedDevice device(faults.on_foreign_device ? models::foreign_device()
                                                             : c10::Device(c10::kCPU));
  auto model = models::create_model(models::MlpSpec{.inputs = kWidth, .hidden = {8}}).value();
  model->initialize(1);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  const optim::AverageSpec average{.decay = faults.evaluates ? 0.9 : 0};
  auto optimizer = optim::create_optimizer(optim::SgdSpec{}, parameters, average).value();
  return std::make_unique<parallel::DataParallel>(
      std::move(model), std::move(optimizer),
      parallel::SliceOptions{.virtual_workers = kSlices,
                             .compute = {.precision = faults.loss_scale ? models::Precision::kF16
                                                                        : models::Precision::kF32},
                             .elastic = true},
      system_clock());
}

class Rows final : public observe::Sink {
 public:
  void take(const observe::Record& record) noexcept override {
    if (const auto* notice = std::get_if<observe::Notice>(&record)) text += notice->text + "\n";
    if (const auto* back = std::get_if<observe::WentBack>(&record)) text += back->how + "\n";
    const auto* row = std::get_if<observe::Metrics>(&record);
    if (row == nullptr) return;
    steps.insert(to_int(row->step));
    const auto loss =
        std::ranges::find(row->values, observe::metric::kEvalLoss, &observe::Metric::name);
    if (loss != row->values.end()) evaluations[to_int(row->step)] = loss->value;
  }
  std::string text;
  std::set<std::int64_t> steps;
  std::map<std::int64_t, double> evaluations;
};

TrainerOptions options_of(const Town& town, const Faults& faults) {
  TrainerOptions options;
  options.length = {.total_steps = faults.steps, .steps_per_epoch = 13};
  options.schedule = {.kind = optim::ScheduleKind::kConstant, .learning_rate = 0.05};
  options.evaluation.every = faults.evaluates ? job::Interval::of_steps(3) : job::Interval::never();
  options.evaluation.keep_best = false;  // there is no folder
  options.evaluates_average = faults.evaluates;
  options.checkpoint.every =
      faults.saving ? job::Interval::of_steps(faults.saving->every) : job::Interval::never();
  if (faults.saving) options.op.timeout = kPatience;
  options.checkpoint.at_end = false;
  options.replicas.compare_every = job::Interval::of_steps(5);
  if (faults.compares_gradients) options.replicas.compare_gradients = job::Interval::of_steps(1);
  if (faults.slow_data) {
    options.stragglers = {
        .compare_every = Duration{}, .rebalance = false, .tell_factor = kFarSlower};
  }
  options.slices = kSlices;
  options.active = 100;
  options.keeps_ranks = town.keeps_ranks();
  options.loss_scale = faults.loss_scale;
  return options;
}

End train_one(Town& town, std::int32_t worker, const Faults& faults, bool newcomer,
              const std::optional<Return>& returned = {}) {
  Inhabitant generations(town, worker);
  Faulty strategy(make_strategy(faults), town, worker, faults);
  observe::Hub hub;
  const auto rows = std::make_shared<Rows>();
  const auto subscription = hub.subscribe(rows);
  Files& disk = faults.saving ? faults.saving->disk(worker) : system_files();
  const Path folder = faults.saving ? "/run/checkpoints" : "";
  Checkpoints checkpoints({.folder = folder, .job = "test", .writes = false, .keep = 0}, disk, hub,
                          system_clock());
  const bool slow = faults.slow_data && faults.slow_data->worker == worker;
  const auto numbers = std::make_shared<Numbers>(slow ? faults.slow_data->sample : Duration{});
  const auto pipeline = data::Pipeline::create(numbers, {}).value();
  const data::BatchStreamOptions stream{.batch = kBatch, .slices = kSlices};
  TrainerOptions options = options_of(town, faults);
  options.newcomer = newcomer;
  options.returned = returned;
  End end;
  Trainer trainer({.strategy = strategy,
                   .generations = generations,
                   .checkpoints = checkpoints,
                   .hub = hub,
                   .clock = system_clock(),
                   .training_data =
                       [&](const data::Cursor& cursor, std::vector<SliceIndex> own, std::int32_t) {
                         data::BatchStreamOptions part = stream;
                         part.own = std::move(own);
                         return data::BatchStream::create(pipeline, part, cursor, system_clock());
                       },
                   .evaluation_data =
                       [&](std::vector<SliceIndex> own) {
                         data::BatchStreamOptions whole = data::evaluation_options(stream);
                         whole.own = std::move(own);
                         return data::BatchStream::create(pipeline, whole, {}, system_clock());
                       },
                   .peak_memory = [] { return std::uint64_t{0}; },
                   .stop_requested = [] { return false; },
                   .now_doing =
                       [&](Step step, std::string_view what) {
                         if (what == "comparing replicas") end.compared.insert(to_int(step));
                         if (what == "waiting for newcomers") town.trained(INT64_MAX);
                       }},
                  options, {});
  auto outcome = trainer.run();
  if (outcome)
    end.outcome = *outcome;
  else
    end.error = outcome.error().message;
  Sha256 hash;
  for (const auto& slice : state_here(strategy)) hash.update(slice.tensor.bytes);
  end.hash = to_hex(hash.finish());
  end.told = rows->text;
  end.steps = rows->steps;
  end.evaluations = rows->evaluations;
  return end;
}

// And whoever takes its place, or it itself where all go back to the beginning.
End train_in_place(Town& town, std::int32_t worker, const Faults& faults, bool newcomer) {
  End end = train_one(town, worker, faults, newcomer);
  Faults none = faults;
  none.flips.clear();
  none.death.reset();
  while (town.keeps_ranks()) {
    const bool goes_back = end.outcome && end.outcome->ending == Ending::kGoesBack;
    const bool is_gone =
        end.outcome ? end.outcome->ending == Ending::kDismissed : end.error == "dead";
    if (!goes_back && !is_gone) break;
    End next = train_one(town, worker, none, is_gone,
                         goes_back ? end.outcome->back : std::optional<Return>());
    next.told = end.told + next.told;
    end = std::move(next);
  }
  return end;
}

}  // namespace

Result<Entry> Town::wait(std::int32_t worker, Generation than) {
  std::unique_lock lock(mutex_);
  const auto belongs = [&] { return std::ranges::find(workers_, worker); };
  const bool came = changed_.wait_for(lock, std::chrono::seconds(60), [&] {
    return generation_ > than && belongs() != workers_.end();
  });
  if (!came) return fail(ErrorCode::kTimeout, "no generation came");
  const auto rank = belongs() - workers_.begin();
  return Entry{communicators_[static_cast<std::size_t>(rank)], workers_,
               std::vector<std::string>(workers_.size(), "a thread")};
}

void Town::replace() {
  const auto before = communicators_;
  form();
  for (const auto& communicator : before)
    communicator->abort(fail(ErrorCode::kPeerLost, "the generation has ended"));
  changed_.notify_all();
}

void Town::form() {
  generation_ = Generation{to_int(generation_) + 1};
  communicators_ = comm::create_loopback(static_cast<std::int32_t>(workers_.size()), generation_);
  for (auto& communicator : communicators_)
    communicator = comm::with_faults(
        communicator, [this, generation = generation_](const comm::Op& op, const auto& options) {
          const auto* send = std::get_if<comm::Send>(&op);
          if (send != nullptr && options.label == "state for newcomers") {
            hold(generation);
            if (spoils_) send->tensor.bytes.front() ^= std::byte{4};
          }
          return std::optional<Error>();
        });
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    communicators_[rank] = std::make_shared<SpoiltSums>(
        communicators_[rank], static_cast<std::size_t>(workers_[rank]),
        [this, worker = workers_[rank]] { return spoils_sum(worker); });
  }
}

void Town::hold(Generation generation) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(60),
                    [&] { return trained_ >= holds_until_ || generation_ > generation; });
}

std::map<std::int32_t, End> train(Town& town, std::int32_t size, const Faults& faults) {
  std::map<std::int32_t, End> ends;
  for (std::int32_t worker = 0; worker < size; ++worker) ends[worker];
  if (faults.join)
    for (const std::int32_t worker : faults.join->workers) ends[worker];
  std::vector<std::jthread> threads;
  threads.reserve(ends.size());
  for (auto& [worker, end] : ends)
    threads.emplace_back([&, worker = worker, into = &end] {
      *into = train_in_place(town, worker, faults, worker >= size);
    });
  threads.clear();
  return ends;
}

End alone(const Faults& faults) {
  Town town(1);
  return train(town, 1, faults).at(0);
}

std::string undisturbed() { return alone({}).hash; }

void expect_well(const End& end, const std::string& hash, std::int64_t steps) {
  ASSERT_TRUE(end.outcome) << end.error;
  EXPECT_EQ(end.outcome->ending, Ending::kCompleted);
  EXPECT_EQ(end.outcome->progress.committed, Step{steps});
  EXPECT_EQ(end.hash, hash);
}

}  // namespace muster::train
