#include "muster/data/batch_stream.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "muster/base/exception_error.h"
#include "muster/data/sampler.h"
#include "muster/data/slice_loader.h"
#include "muster/data/storage_pool.h"

namespace muster::data {
namespace {

constexpr Duration kIdle = std::chrono::minutes(1);  // a thread without work looks again

Status check_options(const BatchStreamOptions& options) {
  const auto refuse = [](std::string text) {
    return Status(fail(ErrorCode::kInvalid, "[data/stream] " + std::move(text)));
  };
  if (options.batch < 1) return refuse(fmt::format("a batch of {} samples", options.batch));
  if (options.slices < 1) return refuse(fmt::format("{} slices", options.slices));
  for (std::int32_t before = -1; const SliceIndex slice : options.own) {
    const std::int32_t index = to_int(slice);
    if (index <= before || index >= options.slices) {
      return refuse(fmt::format("slice {} after {} of {}", index, before, options.slices));
    }
    before = index;
  }
  if (options.threads < 1) return refuse(fmt::format("{} loading threads", options.threads));
  if (options.prefetch < 1) return refuse(fmt::format("prefetch of {} steps", options.prefetch));
  return ok();
}

Status check_start(const Cursor& start, std::int64_t epoch_size) {
  if (epoch_size < 1) {
    return fail(ErrorCode::kInvalid,
                "[data/stream] the data set has no samples; check the paths and the split");
  }
  if (start.epoch >= 0 && start.position >= 0 && start.position < epoch_size) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[data/stream] cannot start at epoch {}, position {} of {} samples: the "
                          "data set is not the one that this progress was made on",
                          start.epoch, start.position, epoch_size));
}

}  // namespace

// Threads take slices in order from a bounded queue of planned steps; next() takes finished steps
// from its front.
class BatchStream::Loader : public std::enable_shared_from_this<Loader> {
 public:
  Loader(Pipeline pipeline, const BatchStreamOptions& options, const Cursor& start, Clock& clock)
      : pipeline_(std::move(pipeline)),
        options_(options),
        clock_(clock),
        plan_({pipeline_.source().size(), options.batch, options.slices}),
        sampler_(options.seed, pipeline_.source().size(), options.shuffle),
        pool_(storage_bytes(pipeline_.fields(), largest_slice())),
        planned_(start),
        last_epoch_(options.one_pass ? start.epoch : kForever) {}

  Status start();
  void stop();  // once, and last
  Result<std::optional<StepBatch>> next();

  const StepPlan& plan() const noexcept { return plan_; }

 private:
  static constexpr std::int64_t kForever = INT64_MAX;

  struct PlannedStep {
    StepBatch batch;
    std::size_t taken = 0;       // slices that a thread has begun
    std::size_t unfinished = 0;  // slices not yet loaded
    std::optional<Error> error;
  };
  struct Task {
    std::shared_ptr<PlannedStep> step;
    std::size_t slice;
  };

  std::int64_t largest_slice() const noexcept {
    return plan_.slice(plan_.step(Cursor{}), SliceIndex{0}).size();
  }
  bool finished_planning() const noexcept { return planned_.epoch > last_epoch_; }

  void run();
  void load_until_stopped();
  std::optional<Task> take_task();
  void plan_step();
  Status load(SliceLoader& loader, const Task& task);
  Error too_late(const PlannedStep* step) const;

  const Pipeline pipeline_;
  const BatchStreamOptions options_;
  Clock& clock_;
  const StepPlan plan_;
  const Sampler sampler_;
  StoragePool pool_;
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable work_;    // something to load, or stop
  std::condition_variable loaded_;  // the first step may be complete, a thread ended
  std::deque<std::shared_ptr<PlannedStep>> steps_;  // guarded by mutex_, oldest first
  Cursor planned_;                                  // guarded by mutex_: where the next plan begins
  const std::int64_t last_epoch_;
  std::size_t ended_ = 0;             // guarded by mutex_: of threads_
  std::optional<Error> broken_;       // guarded by mutex_: why a thread ended
  std::optional<Error> failure_;      // next()'s own
  std::vector<std::thread> threads_;  // start()'s and stop()'s
};

Status BatchStream::Loader::start() {
  try {
    for (std::int32_t i = 0; i < options_.threads; ++i)
      threads_.emplace_back([loader = shared_from_this()] { loader->run(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("[data/stream] cannot start loading thread {} of {}: {}; lower "
                            "data.loader_threads or raise the limit of processes",
                            threads_.size() + 1, options_.threads, error.what()));
  }
  return ok();
}

void BatchStream::Loader::stop() {
  std::unique_lock lock(mutex_);
  stop_ = true;
  work_.notify_all();
  const TimePoint until = clock_.now() + options_.stop_timeout;
  while (ended_ < threads_.size() && clock_.wait_until(lock, loaded_, until)) continue;
  const bool all = ended_ == threads_.size();
  lock.unlock();
  // A thread stuck in a read cannot be joined; it keeps what it needs alive.
  for (std::thread& thread : threads_) all ? thread.join() : thread.detach();
}

// Nobody catches what leaves a thread.
void BatchStream::Loader::run() {
  const Status outcome = without_exceptions("data/load", [this] {
    load_until_stopped();
    return ok();
  });
  const std::lock_guard lock(mutex_);
  if (!outcome && !broken_) broken_ = outcome.error();
  ++ended_;
  loaded_.notify_one();
}

void BatchStream::Loader::load_until_stopped() {
  SliceLoader loader(pipeline_, sampler_, pool_, stop_);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const std::optional<Task> task = take_task();
    if (!task) {
      clock_.wait_until(lock, work_, clock_.now() + kIdle);
      continue;
    }
    lock.unlock();
    Status status = load(loader, *task);
    lock.lock();
    if (!status && !task->step->error) task->step->error = std::move(status).error();
    if (--task->step->unfinished == 0) loaded_.notify_one();
  }
}

std::optional<BatchStream::Loader::Task> BatchStream::Loader::take_task() {
  for (const std::shared_ptr<PlannedStep>& step : steps_) {
    if (step->taken < step->batch.slices.size()) return Task{step, step->taken++};
  }
  while (steps_.size() < static_cast<std::size_t>(options_.prefetch) && !finished_planning()) {
    plan_step();
    if (!steps_.back()->batch.slices.empty()) return Task{steps_.back(), steps_.back()->taken++};
  }
  return std::nullopt;
}

void BatchStream::Loader::plan_step() {
  auto step = std::make_shared<PlannedStep>();
  const Share positions = plan_.step(planned_);
  step->batch.before = planned_;
  step->batch.after = plan_.after(planned_);
  step->batch.samples = positions.size();
  step->batch.roll = roll_of(plan_, planned_);
  for (const SliceIndex own : options_.own) {
    SliceBatch slice;
    slice.slice = own;
    slice.positions = plan_.slice(positions, slice.slice);
    slice.mark = slice_mark(planned_.epoch, slice.slice, slice.positions);
    step->batch.slices.push_back(std::move(slice));
  }
  step->unfinished = step->batch.slices.size();
  if (step->unfinished == 0) loaded_.notify_one();
  planned_ = step->batch.after;
  steps_.push_back(std::move(step));
}

Status BatchStream::Loader::load(SliceLoader& loader, const Task& task) {
  try {
    return loader.load(task.step->batch.before.epoch, task.step->batch.slices[task.slice]);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::kUnavailable,
                "[data/load] out of memory; lower data.prefetch_batches or the batch size");
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, fmt::format("[data/load] {}", error.what()));
  }
}

Result<std::optional<StepBatch>> BatchStream::Loader::next() {
  if (failure_) return *failure_;
  const TimePoint began = clock_.now();
  std::unique_lock lock(mutex_);
  while (steps_.empty() ? !finished_planning() : steps_.front()->unfinished > 0) {
    if (broken_) return *(failure_ = broken_);
    const bool late = !clock_.wait_until(lock, loaded_, began + options_.timeout);
    const bool ready = !steps_.empty() && steps_.front()->unfinished == 0;
    if (late && !ready)
      return *(failure_ = too_late(steps_.empty() ? nullptr : steps_.front().get()));
  }
  if (steps_.empty()) return std::optional<StepBatch>();
  const std::shared_ptr<PlannedStep> step = std::move(steps_.front());
  steps_.pop_front();
  lock.unlock();
  work_.notify_all();
  if (step->error) return *(failure_ = std::move(step->error));
  step->batch.waited = clock_.now() - began;
  return std::optional(std::move(step->batch));
}

Error BatchStream::Loader::too_late(const PlannedStep* step) const {
  const Cursor at = step != nullptr ? step->batch.before : planned_;
  return fail(
      ErrorCode::kTimeout,
      fmt::format("[data/next] the batch at epoch {}, position {} was not loaded within {} s; "
                  "is the storage of the data set reachable?",
                  at.epoch, at.position,
                  std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count()));
}

Result<std::unique_ptr<BatchStream>> BatchStream::create(Pipeline pipeline,
                                                         const BatchStreamOptions& options,
                                                         const Cursor& start, Clock& clock) {
  MUSTER_TRY(check_options(options));
  MUSTER_TRY(check_start(start, pipeline.source().size()));
  std::unique_ptr<BatchStream> stream(
      new BatchStream(std::make_shared<Loader>(std::move(pipeline), options, start, clock)));
  MUSTER_TRY(stream->loader_->start());
  return stream;
}

BatchStream::BatchStream(std::shared_ptr<Loader> loader) : loader_(std::move(loader)) {}
BatchStream::~BatchStream() { loader_->stop(); }

Result<std::optional<StepBatch>> BatchStream::next() { return loader_->next(); }

const StepPlan& BatchStream::plan() const noexcept { return loader_->plan(); }

BatchStreamOptions evaluation_options(BatchStreamOptions options) {
  options.shuffle = false;
  options.one_pass = true;
  return options;
}

}  // namespace muster::data
