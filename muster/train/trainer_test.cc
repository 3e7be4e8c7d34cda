// The whole loop on several ranks, each a thread: what happens when a worker's bits go wrong, when
// a generation breaks, and when somebody joins.
#include "muster/train/trainer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/comm/wrap/wrappers.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"

namespace muster::train {
namespace {

constexpr std::int64_t kSteps = 23;
constexpr std::int64_t kBatch = 16;
constexpr std::int32_t kSlices = 8;
constexpr std::int64_t kWidth = 12;

class Numbers final : public data::Source {
 public:
  std::int64_t size() const noexcept override { return 200; }
  const std::vector<data::FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    std::int64_t place = index;
    for (float& value : into[0].as<float>()) value = static_cast<float>(place++ % 13) - 6.0F;
    into[1].as<std::int64_t>()[0] = index % 10;
    return ok();
  }

 private:
  const std::vector<data::FieldSpec> fields_{{"image", DType::kF32, {kWidth}},
                                             {"label", DType::kI64, {}}};
};

// Forms generations of threads; whoever is quarantined or dies is in none from then on. The state
// for newcomers is held up until step `holds_until` has been trained, or the generation ends, and
// may be spoilt on its way.
class Town {
 public:
  explicit Town(std::int32_t size, std::int64_t holds_until = 0, bool spoils = false)
      : holds_until_(holds_until), spoils_(spoils) {
    for (std::int32_t worker = 0; worker < size; ++worker) workers_.push_back(worker);
    form();
  }

  // The first generation after `than` that `worker` belongs to.
  Result<Entry> wait(std::int32_t worker, Generation than) {
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

  void quarantine(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    quarantined.insert(worker);
    std::erase(workers_, worker);
    replace();
  }
  void bury(std::int32_t worker) {
    const std::lock_guard lock(mutex_);
    std::erase(workers_, worker);
    replace();
  }

  // From the next generation on, to which all change over when they like.
  void invite(const std::vector<std::int32_t>& newcomers) {
    const std::lock_guard lock(mutex_);
    workers_.insert(workers_.end(), newcomers.begin(), newcomers.end());
    form();
    changed_.notify_all();
  }
  Generation generation() {
    const std::lock_guard lock(mutex_);
    return generation_;
  }

  void trained(std::int64_t step) {
    const std::lock_guard lock(mutex_);
    trained_ = std::max(trained_, step);
    changed_.notify_all();
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return workers_.size();
  }

  // All again in a new generation; the present one breaks.
  void break_up() {
    const std::lock_guard lock(mutex_);
    replace();
  }

  // Until `count` workers have come so far as to call did() with `what`.
  void did(std::int64_t what) {
    const std::lock_guard lock(mutex_);
    ++done_[what];
    changed_.notify_all();
  }
  bool wait_until_done(std::int64_t what, std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return done_[what] >= count; });
  }

  std::multiset<std::int32_t> quarantined;

 private:
  void replace() {
    const auto before = communicators_;
    form();
    for (const auto& communicator : before)
      communicator->abort(fail(ErrorCode::kPeerLost, "the generation has ended"));
    changed_.notify_all();
  }
  void form() {
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
  }
  void hold(Generation generation) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(60),
                      [&] { return trained_ >= holds_until_ || generation_ > generation; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Generation generation_{0};
  std::vector<std::int32_t> workers_;
  std::vector<std::shared_ptr<comm::Communicator>> communicators_;
  std::map<std::int64_t, std::size_t> done_;
  const std::int64_t holds_until_;
  const bool spoils_;
  std::int64_t trained_ = 0;
};

class Inhabitant final : public Generations {
 public:
  Inhabitant(Town& town, std::int32_t worker)
      : town_(town), worker_(worker), entry_(town.wait(worker, Generation{0}).value()) {}
  const Entry& current() const noexcept override { return entry_; }
  bool changing() const override {
    return town_.generation() > entry_.communicator->group().generation;
  }
  bool outlives(const Error& why) const override { return why.code == ErrorCode::kPeerLost; }
  Result<std::optional<Entry>> next(const std::optional<Error>&) override {
    MUSTER_ASSIGN(entry_, town_.wait(worker_, entry_.communicator->group().generation));
    return std::optional(entry_);
  }
  void resign() override {}
  void quarantine(const Error&) override { town_.quarantine(worker_); }

 private:
  Town& town_;
  const std::int32_t worker_;
  Entry entry_;
};

struct Flip {
  std::int32_t worker = -1;  // nobody
  std::int64_t step = 0;     // after which the bit is wrong
  std::size_t tensor = 0;    // of weights and optimizer state together
  bool by_update = true;     // else by memory, before the next one
};

// The generation breaks when all but `worker` have applied this step.
struct Break {
  std::int32_t worker = 0;
  std::int64_t step = 0;
};

// Before its step.
struct Death {
  std::int32_t worker = 0;
  std::int64_t step = 0;
};

struct Join {
  std::int64_t step = 0;  // at which they are there
  std::vector<std::int32_t> workers;
};

struct Faults {
  std::vector<Flip> flips = {};
  std::optional<Break> breaks = {};
  std::optional<Death> death = {};
  std::optional<Join> join = {};
};

// DataParallel in a memory that fails once, on a link that does, or in a process that dies; and
// among others who come.
class Faulty final : public parallel::Strategy {
 public:
  Faulty(std::unique_ptr<parallel::DataParallel> inner, Town& town, std::int32_t worker,
         const Faults& faults)
      : inner_(std::move(inner)),
        town_(town),
        breaks_(faults.breaks),
        death_(faults.death),
        worker_(worker) {
    if (worker == 0) join_ = faults.join;
    for (const Flip& flip : faults.flips)
      if (flip.worker == worker) flip_ = flip;
  }

  Result<parallel::StepReport> step(const parallel::StepInput& input) override {
    const std::int64_t step = to_int(input.step);
    if (join_ && join_->step == step) town_.invite(std::exchange(join_, {})->workers);
    if (death_ && death_->worker == worker_ && death_->step == step) {
      town_.bury(worker_);
      return fail(ErrorCode::kInternal, "dead");
    }
    if (breaks_ && breaks_->step == step) return break_at(input);
    if (flip_ && !flip_->by_update && step == flip_->step + 1) flip();
    auto report = inner_->step(input);
    if (flip_ && flip_->by_update && report && step == flip_->step) flip();
    if (report) town_.trained(step);
    return report;
  }
  Status enter(std::shared_ptr<comm::Communicator> communicator,
               const comm::LeafOwners& owners) override {
    return inner_->enter(std::move(communicator), owners);
  }
  std::optional<Step> kept() const override { return inner_->kept(); }
  void fall_behind() override { inner_->fall_behind(); }
  bool behind() const noexcept override { return inner_->behind(); }
  Status catch_up() override { return inner_->catch_up(); }
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
  void set_optimizer_steps(std::int64_t steps) override { inner_->set_optimizer_steps(steps); }

 private:
  // As if the link had broken before this rank heard of the last sum: it has not applied the step.
  Result<parallel::StepReport> break_at(const parallel::StepInput& input) {
    const Break here = *std::exchange(breaks_, std::nullopt);
    const std::size_t others = town_.size() - 1;
    std::vector<std::vector<std::byte>> before;
    for (const auto& slice : state())
      before.emplace_back(slice.tensor.bytes.begin(), slice.tensor.bytes.end());
    auto report = inner_->step(input);
    if (worker_ != here.worker) {
      town_.did(here.step);
      return report;
    }
    for (auto from = before.begin(); const auto& slice : state())
      std::ranges::copy(*from++, slice.tensor.bytes.begin());
    EXPECT_TRUE(town_.wait_until_done(here.step, others));
    town_.break_up();
    return fail(ErrorCode::kPeerLost, "the link broke");
  }

  std::vector<parallel::StateSlice> state() {
    auto all = model_state();
    std::ranges::move(optimizer_state(), std::back_inserter(all));
    return all;
  }

  void flip() {
    auto all = state();
    all[flip_->tensor % all.size()].tensor.bytes[1] ^= std::byte{4};
    flip_.reset();
  }

  const std::unique_ptr<parallel::DataParallel> inner_;
  Town& town_;
  std::optional<Flip> flip_;
  std::optional<Break> breaks_;
  const std::optional<Death> death_;
  std::optional<Join> join_;
  const std::int32_t worker_;
};

std::unique_ptr<parallel::DataParallel> make_strategy() {
  auto model = models::create_model(models::MlpSpec{.inputs = kWidth, .hidden = {8}}).value();
  model->initialize(1);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& p : model->parameters())
    parameters.push_back({p.name, p.tensor, p.decays});
  auto optimizer = optim::create_optimizer(optim::SgdSpec{}, parameters).value();
  return std::make_unique<parallel::DataParallel>(
      std::move(model), std::move(optimizer),
      parallel::DataParallelOptions{.virtual_workers = kSlices, .elastic = true}, system_clock());
}

class Rows final : public observe::Sink {
 public:
  void take(const observe::Record& record) noexcept override {
    if (const auto* notice = std::get_if<observe::Notice>(&record)) text += notice->text + "\n";
    if (const auto* row = std::get_if<observe::Metrics>(&record)) steps.insert(to_int(row->step));
  }
  std::string text;
  std::set<std::int64_t> steps;
};

struct End {
  std::optional<Outcome> outcome;
  std::string error;
  std::string hash;
  std::string told;
  std::set<std::int64_t> steps;  // that were told
};

End train_one(Town& town, std::int32_t worker, const Faults& faults, bool newcomer) {
  Inhabitant generations(town, worker);
  Faulty strategy(make_strategy(), town, worker, faults);
  observe::Hub hub;
  const auto rows = std::make_shared<Rows>();
  const auto subscription = hub.subscribe(rows);
  Checkpoints checkpoints({.folder = {}, .job = "test", .writes = false}, system_files(), hub,
                          system_clock());
  const auto pipeline = data::Pipeline::create(std::make_shared<Numbers>(), {}).value();
  TrainerOptions options;
  options.length = {.total_steps = kSteps, .steps_per_epoch = 13};
  options.schedule = {.kind = optim::ScheduleKind::kConstant, .learning_rate = 0.05};
  options.evaluation.every = job::Interval::never();
  options.checkpoint.every = job::Interval::never();
  options.checkpoint.at_end = false;
  options.replicas.compare_every = job::Interval::of_steps(5);
  options.slices = kSlices;
  options.active = 100;
  options.newcomer = newcomer;
  Trainer trainer({.strategy = strategy,
                   .generations = generations,
                   .checkpoints = checkpoints,
                   .hub = hub,
                   .clock = system_clock(),
                   .training_data =
                       [&](const data::Cursor& cursor, std::vector<SliceIndex> own, std::int32_t) {
                         return data::BatchStream::create(
                             pipeline, {.batch = kBatch, .slices = kSlices, .own = std::move(own)},
                             cursor, system_clock());
                       },
                   .evaluation_data = {},
                   .peak_memory = [] { return std::uint64_t{0}; },
                   .stop_requested = [] { return false; },
                   .now_doing = [](Step, std::string_view) {}},
                  options, {});
  End end;
  auto outcome = trainer.run();
  if (outcome)
    end.outcome = *outcome;
  else
    end.error = outcome.error().message;
  Sha256 hash;
  for (const auto& slice : strategy.model_state()) hash.update(slice.tensor.bytes);
  for (const auto& slice : strategy.optimizer_state()) hash.update(slice.tensor.bytes);
  end.hash = to_hex(hash.finish());
  end.told = rows->text;
  end.steps = rows->steps;
  return end;
}

std::map<std::int32_t, End> train(Town& town, std::int32_t size, const Faults& faults) {
  std::map<std::int32_t, End> ends;
  for (std::int32_t worker = 0; worker < size; ++worker) ends[worker];
  if (faults.join)
    for (const std::int32_t worker : faults.join->workers) ends[worker];
  std::vector<std::jthread> threads;
  for (auto& [worker, end] : ends)
    threads.emplace_back([&, worker = worker, into = &end] {
      *into = train_one(town, worker, faults, worker >= size);
    });
  threads.clear();
  return ends;
}

std::string undisturbed() {
  Town town(1);
  return train(town, 1, {}).at(0).hash;
}

void expect_well(const End& end, const std::string& hash) {
  ASSERT_TRUE(end.outcome) << end.error;
  EXPECT_EQ(end.outcome->ending, Ending::kCompleted);
  EXPECT_EQ(end.outcome->progress.committed, Step{kSteps});
  EXPECT_EQ(end.hash, hash);
}

void check_corruption(std::int32_t size, const Flip& flip, const std::string& expected) {
  Town town(size);
  const auto ends = train(town, size, {.flips = {flip}});
  EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{flip.worker})
      << size << " workers, step " << flip.step << ", tensor " << flip.tensor << " by "
      << (flip.by_update ? "update" : "memory") << "\n"
      << ends.at(0).told;
  for (const auto& [worker, end] : ends) {
    if (worker != flip.worker) {
      expect_well(end, expected);
    } else {
      ASSERT_TRUE(end.outcome) << end.error;
      EXPECT_EQ(end.outcome->ending, Ending::kDismissed);
    }
  }
}

// Whoever it is, whenever, in weights or optimizer state, by a wrong update or a failing memory: it
// is found, named and left out, and what it spoilt is undone.
TEST(SilentCorruption, IsFoundNamedAndUndone) {
  const std::string expected = undisturbed();
  for (const std::int32_t size : {2, 3, 4})
    for (std::int32_t victim = 0; victim < size; ++victim)
      for (const std::int64_t step : {1, 7, 10, 22})
        for (const std::size_t tensor : {0, 3, 6})
          for (const bool by_update : {true, false})
            check_corruption(size, {victim, step, tensor, by_update}, expected);
}

TEST(SilentCorruption, WithoutItNobodyGoes) {
  const std::string expected = undisturbed();
  Town town(3);
  for (const auto& [worker, end] : train(town, 3, {})) {
    expect_well(end, expected);
    EXPECT_EQ(end.told.find("weights"), std::string::npos) << end.told;
  }
  EXPECT_TRUE(town.quarantined.empty());
}

TEST(SilentCorruption, TheFirstRankSaysWhoItWas) {
  Town town(3);
  const auto ends = train(town, 3, {.flips = {{2, 7, 0}}});
  EXPECT_NE(
      ends.at(0).told.find("worker 2 (a thread) held other weights than the others after step "
                           "10"),
      std::string::npos)
      << ends.at(0).told;
  EXPECT_NE(ends.at(0).told.find("all go back to step 5"), std::string::npos);
}

// Two of two at once: nobody was right, so nobody is left out, and yet it is undone.
TEST(SilentCorruption, OfAllAtOnceIsUndone) {
  const std::string expected = undisturbed();
  Town town(2);
  for (const auto& [worker, end] : train(town, 2, {.flips = {{0, 7, 0}, {1, 7, 1}}})) {
    expect_well(end, expected);
  }
  EXPECT_TRUE(town.quarantined.empty());
}

// Whoever lacks the last step of a broken generation copies it; the first rank, which never saw it
// applied, tells of it all the same.
TEST(Recovery, EveryStepIsToldThoughTheFirstRankLacksOne) {
  const std::string expected = undisturbed();
  for (const std::int32_t worker : {0, 1}) {
    Town town(3);
    const auto ends = train(town, 3, {.breaks = Break{worker, 9}});
    for (const auto& [rank, end] : ends) expect_well(end, expected);
    EXPECT_EQ(ends.at(0).steps.size(), static_cast<std::size_t>(kSteps)) << "without " << worker;
  }
}

// Workers 2 and 3 come at step 6, after which the state for them is held up until step 9.
std::map<std::int32_t, End> train_with_newcomers(Faults faults,
                                                 const std::vector<std::int32_t>& newcomers,
                                                 bool spoils = false) {
  Town town(2, 9, spoils);
  faults.join = Join{6, newcomers};
  return train(town, 2, faults);
}

TEST(Joining, NewcomersGetTheStateWhileTheOthersTrain) {
  const std::string expected = undisturbed();
  for (const std::vector<std::int32_t>& newcomers : {std::vector{2}, std::vector{2, 3}}) {
    const auto ends = train_with_newcomers({}, newcomers);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
    EXPECT_NE(ends.at(0).told.find("got the state"), std::string::npos) << ends.at(0).told;
    EXPECT_EQ(ends.at(0).told.find("while 0 steps"), std::string::npos) << ends.at(0).told;
  }
}

TEST(Joining, StandsTheDeathOfAnyoneMeanwhile) {
  const std::string expected = undisturbed();
  for (const std::int32_t victim : {0, 1, 2, 3}) {
    auto ends = train_with_newcomers({.death = Death{victim, 8}}, {2, 3});
    EXPECT_EQ(ends.at(victim).error, "dead");
    ends.erase(victim);
    for (const auto& [worker, end] : ends) expect_well(end, expected);
  }
}

TEST(Joining, BeginsAnewWhereTheGenerationBreaks) {
  const std::string expected = undisturbed();
  for (const std::int32_t worker : {0, 1, 2}) {
    const auto ends = train_with_newcomers({.breaks = Break{worker, 8}}, {2});
    for (const auto& [rank, end] : ends) expect_well(end, expected);
  }
}

TEST(Joining, WhoGotTheStateWrongGoes) {
  const std::string expected = undisturbed();
  auto ends = train_with_newcomers({}, {2}, true);
  EXPECT_NE(ends.at(0).told.find("worker 2 (a thread) held other weights"), std::string::npos);
  ASSERT_TRUE(ends.at(2).outcome) << ends.at(2).error;
  EXPECT_EQ(ends.at(2).outcome->ending, Ending::kDismissed) << ends.at(0).told;
  ends.erase(2);
  for (const auto& [worker, end] : ends) expect_well(end, expected);
}

}  // namespace
}  // namespace muster::train
