#include "muster/comm/work.h"

namespace muster::comm {

Work Work::ended(Status status) {
  auto state = std::make_shared<WorkState>();
  state->finish(std::move(status));
  return Work(std::move(state));
}

Status Work::wait() const {
  if (!state_->ended()) {
    tell_wait();
    if (const auto runner = state_->runner_.lock()) runner->help(*state_);
  }
  if (!state_->ended()) {
    std::unique_lock lock(state_->mutex_);
    state_->changed_.wait(lock, [&] { return state_->ended(); });
  }
  return *state_->outcome_;
}

bool Work::done() const noexcept { return state_->ended(); }

void Work::hasten() const {
  if (state_->ended()) return;
  if (const auto runner = state_->runner_.lock()) runner->hasten(*state_);
}

bool Work::wait_until(Clock& clock, TimePoint until) const {
  if (!state_->ended()) tell_wait();
  hasten();
  std::unique_lock lock(state_->mutex_);
  while (!state_->ended() && clock.wait_until(lock, state_->changed_, until)) continue;
  return state_->ended();
}

void Work::on_done(std::function<void(const Status&)> then) const {
  note_done(std::move(then));
  hasten();
}

void Work::note_done(std::function<void(const Status&)> then) const {
  {
    const std::lock_guard lock(state_->mutex_);
    if (!state_->ended()) {
      state_->then_.push_back(std::move(then));
      return;
    }
  }
  then(*state_->outcome_);  // never changes once set
}

void Work::note_wait(std::function<void()> then) const {
  const std::lock_guard lock(state_->mutex_);
  if (state_->ended()) return;
  state_->on_wait_ = std::move(then);
  state_->has_note_.store(true, std::memory_order_release);
}

std::optional<Awaited> Work::awaited() const {
  const auto runner = state_->runner_.lock();
  return runner ? runner->awaited(*state_) : std::nullopt;
}

void Work::tell_wait() const {
  if (!state_->has_note_.load(std::memory_order_acquire)) return;
  std::function<void()> then;
  {
    const std::lock_guard lock(state_->mutex_);
    then.swap(state_->on_wait_);
  }
  if (then) then();
}

Status wait_for_all(const std::vector<Work>& works) {
  Status outcome = ok();
  for (const Work& work : works) {
    Status status = work.wait();
    if (!status && outcome) outcome = std::move(status);
  }
  return outcome;
}

void WorkState::finish(Status status) {
  std::vector<std::function<void(const Status&)>> then;
  {
    const std::lock_guard lock(mutex_);
    if (ended()) return;
    outcome_ = std::move(status);
    ended_.store(true, std::memory_order_release);
    then.swap(then_);
    changed_.notify_all();
  }
  for (const auto& callback : then) callback(*outcome_);
}

}  // namespace muster::comm
