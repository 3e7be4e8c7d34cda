#include "muster/checkpoint/async_saver.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>

#include "muster/base/check.h"
#include "muster/checkpoint/publish.h"
#include "muster/checkpoint/snapshot.h"

namespace muster::checkpoint {
namespace {

Error out_of_memory() {
  return fail(ErrorCode::kUnavailable,
              "[checkpoint/save] out of memory; a save keeps a copy of the state beside the "
              "training: give the worker more memory, or let it have fewer lanes");
}

Error no_thread(const std::system_error& error) {
  return fail(ErrorCode::kUnavailable,
              fmt::format("[checkpoint/save] cannot start the thread of a save: {}; lower "
                          "data.loader_threads or raise the limit of processes",
                          error.what()));
}

// What only fails for want of memory or of a thread.
Status attempt(const std::function<void()>& step) {
  try {
    step();
    return ok();
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::system_error& error) {
    return no_thread(error);
  }
}

}  // namespace

struct AsyncSaver::State {
  State(std::shared_ptr<Checkpointer> to, Clock& with, MakeThread how)
      : checkpointer(std::move(to)), clock(with), make_thread(std::move(how)) {}

  const std::shared_ptr<Checkpointer> checkpointer;
  Clock& clock;
  const MakeThread make_thread;
  SnapshotMemory memory;
  std::unique_ptr<SnapshotCopy> copy;  // of the latest save
  std::thread thread;                  // that runs it

  std::mutex mutex;
  std::condition_variable changed;
  bool running = false;
  std::optional<Result<SavedCheckpoint>> outcome;  // not yet reported
  std::optional<bool> found;                       // by the last look()

  void begin(std::function<void()> work);
  void look(Step step);
  bool has(Step step);
  void run(const SaveRequest& request);
  Result<SavedCheckpoint> save(const SaveRequest& request);
  bool wait_until_idle(Deadline deadline);
  std::optional<Result<SavedCheckpoint>> collect();
};

// Throws where no thread can be had.
void AsyncSaver::State::begin(std::function<void()> work) {
  if (thread.joinable()) thread.join();  // it has reported, so this is immediate
  running = true;
  try {
    thread = make_thread(std::move(work));
  } catch (...) {
    running = false;
    throw;
  }
}

void AsyncSaver::State::look(Step step) {
  const bool there = has(step);
  const std::lock_guard lock(mutex);
  found = there;
  running = false;
  changed.notify_all();
}

// Where the disk cannot be read, or memory has run out, a save will say why.
bool AsyncSaver::State::has(Step step) {
  try {
    return checkpointer->folder_of(step).has_value();
  } catch (const std::exception&) {
    return false;
  }
}

void AsyncSaver::State::run(const SaveRequest& request) {
  auto result = save(request);
  const std::lock_guard lock(mutex);
  outcome = std::move(result);
  running = false;
  changed.notify_all();
}

// Nobody catches what leaves the thread.
Result<SavedCheckpoint> AsyncSaver::State::save(const SaveRequest& request) {
  try {
    copy->finish();
    return checkpointer->save(request);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, fmt::format("[checkpoint/save] {}", error.what()));
  }
}

bool AsyncSaver::State::wait_until_idle(Deadline deadline) {
  std::unique_lock lock(mutex);
  while (running && !deadline.passed(clock)) clock.wait_until(lock, changed, deadline.at());
  return !running;
}

std::optional<Result<SavedCheckpoint>> AsyncSaver::State::collect() {
  const std::lock_guard lock(mutex);
  return std::exchange(outcome, std::nullopt);
}

std::thread AsyncSaver::usual_thread(std::function<void()> work) {
  return std::thread(std::move(work));
}

AsyncSaver::AsyncSaver(std::shared_ptr<Checkpointer> checkpointer, Clock& clock,
                       MakeThread make_thread)
    : state_(std::make_shared<State>(std::move(checkpointer), clock, std::move(make_thread))) {}

AsyncSaver::~AsyncSaver() {
  if (state_->thread.joinable()) state_->thread.join();
}

Status AsyncSaver::start(SaveRequest request, Deadline deadline) {
  MUSTER_TRY(check_request(request));  // before its tensors are read
  MUSTER_TRY(finish(deadline));
  Status begun = attempt([&] {
    state_->copy = std::make_unique<SnapshotCopy>(
        state_->memory, std::vector<std::vector<NamedTensor>*>{&request.model, &request.optimizer});
    state_->begin([state = state_, request = std::move(request)] { state->run(request); });
  });
  if (!begun) state_->copy.reset();
  return begun;
}

Status AsyncSaver::look_for(Step step) {
  MUSTER_CHECK(!busy(), "a save is under way");
  state_->found.reset();
  return attempt([&] { state_->begin([state = state_, step] { state->look(step); }); });
}

std::optional<bool> AsyncSaver::found() const {
  const std::lock_guard lock(state_->mutex);
  return state_->found;
}

Duration AsyncSaver::wait_until_copied() {
  const TimePoint begin = state_->clock.now();
  if (!state_->copy) return Duration::zero();
  state_->copy->finish();
  return state_->clock.now() - begin;
}

std::optional<Result<SavedCheckpoint>> AsyncSaver::poll() { return state_->collect(); }

Result<std::optional<SavedCheckpoint>> AsyncSaver::finish(Deadline deadline) {
  if (!state_->wait_until_idle(deadline)) {
    return fail(ErrorCode::kTimeout,
                "[checkpoint/save] the save under way did not end in time; the disk of the run "
                "folder is slow or hangs: save less often or to another disk");
  }
  const auto outcome = state_->collect();
  if (!outcome) return std::optional<SavedCheckpoint>();
  if (!*outcome) return outcome->error();
  return std::optional(**outcome);
}

bool AsyncSaver::busy() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}

void AsyncSaver::abandon() {
  if (state_->thread.joinable()) state_->thread.detach();
}

}  // namespace muster::checkpoint
