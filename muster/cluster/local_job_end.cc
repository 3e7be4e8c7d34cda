// How a local job ends: when all its workers have, after a failure, by a signal.
#include <algorithm>
#include <csignal>
#include <utility>

#include "muster/cluster/environment.h"
#include "muster/cluster/local_job.h"
#include "muster/cluster/memory_kills.h"

namespace muster::cluster {
namespace {

// How long output is read after the last process has ended: only a stray grandchild that keeps it
// open needs it.
constexpr Duration kDrain = std::chrono::milliseconds(500);
// From SIGKILL until a process that is still there is left behind.
constexpr Duration kKilledIsGone = std::chrono::seconds(5);

}  // namespace

// ---- the end of a failed job

// What others have found of it, as if it had said so.
void LocalJob::take_account(WorkerProcess& culprit) const {
  if (!verdict_->account || culprit.evidence.reported == verdict_->account) return;
  culprit.progress = culprit.where();
  culprit.evidence.reported = verdict_->account;
  culprit.evidence.concerns = Concerns::kAll;
}

void LocalJob::end_all(const Error& why) {
  ask_for_dumps(DumpOccasion::kFailure);
  coordinator_->broadcast(Failure{why, {}});
  coordinator_->broadcast(Stop{StopReason::kAtOnce});
  kill_timer_ = loop_.call_at(loop_.clock().now() + spec_.grace, [this] { kill_all(); });
  check_over();
}

void LocalJob::kill_all() {
  for (WorkerProcess* worker : all()) worker->kill();
  check_over();
}

// Whoever traces a process hears of its end before its parent, and may keep it for ever.
void LocalJob::await_killed() {
  const bool only_killed = std::ranges::all_of(
      all(), [](const WorkerProcess* worker) { return worker->ended() || worker->killed_by_us; });
  if (left_behind_timer_ || !only_killed) return;
  left_behind_timer_ = loop_.call_at(loop_.clock().now() + kKilledIsGone, [this] {
    left_behind_timer_ = nullptr;
    for (WorkerProcess* worker : all())
      if (!worker->ended() && worker->killed_by_us) worker->leave_behind();
    check_over();
  });
}

// ---- the end

// Those who work and those who have been replaced.
std::vector<WorkerProcess*> LocalJob::all() const {
  std::vector<WorkerProcess*> everybody;
  everybody.reserve(workers_.size() + replaced_.size());
  for (const auto& [number, worker] : workers_) everybody.push_back(worker.get());
  for (const auto& worker : replaced_) everybody.push_back(worker.get());
  return everybody;
}

void LocalJob::check_over() {
  if (state_ == State::kOver) return;
  const auto everybody = all();
  if (!std::ranges::all_of(everybody, &WorkerProcess::ended)) return await_killed();
  if (!std::ranges::all_of(everybody, &WorkerProcess::is_heard_out)) return hear_out();
  if (awaits_others()) return;
  if (std::ranges::all_of(everybody, &WorkerProcess::output_ended)) return finish();
  if (!drain_timer_)
    drain_timer_ = loop_.call_at(loop_.clock().now() + kDrain, [this] {
      drain_timer_ = nullptr;
      // Somebody may have been started meanwhile.
      for (WorkerProcess* worker : all())
        if (worker->ended()) worker->stop_reading();
      check_over();
    });
}

void LocalJob::finish() {
  if (state_ == State::kOver) return;
  dump_timer_ = nullptr;  // nobody is left to answer
  if (state_ == State::kSettling) {
    conclude();
    if (settle_timer_) return;  // somebody's end is awaited
    // The job goes on without the culprit: others are waited for, or one was started in its place.
    if (state_ == State::kRunning) return check_over();
  }
  if (state_ == State::kOver) return;
  if (state_ == State::kRunning && last_loss_ && !signal_ && !is_done()) end_unfinished();
  state_ = State::kOver;
  tell_held_reports();
  tell_dumps();
  left_behind_timer_ = settle_timer_ = hear_timer_ = kill_timer_ = waiting_timer_ = drain_timer_ =
      scale_timer_ = begin_timer_ = nullptr;
  on_over_();
}

std::string LocalJob::reason_of(const WorkerProcess& culprit) const {
  const bool ended_itself =
      culprit.evidence.end && !culprit.killed_by_us && !was_excluded(culprit.evidence);
  if (!ended_itself || culprit.evidence.end->exit_status == 0 || culprit.lost_session())
    return verdict_->reason;
  const bool is_here = !culprit.is_elsewhere() && culprit.remote_host().empty();
  const auto kills = is_here ? memory_kills(files_) - memory_kills_ : 0;
  return describe(*culprit.evidence.end, kills);
}

JobEnd LocalJob::result() const {
  JobEnd end;
  end.signal = signal_;
  end.worker_signal = worker_signal_;
  end.stop_asked = stop_asked_;
  for (const auto& [number, worker] : workers_) {
    if (worker->is_elsewhere()) continue;
    end.exit_statuses.push_back(worker->evidence.end->exit_status.value_or(
        -worker->evidence.end->signal.value_or(SIGKILL)));
    end.peak_memory = std::max(end.peak_memory, worker->evidence.end->peak_memory);
  }
  if (!verdict_) return end;
  if (const WorkerProcess* culprit = find(to_int(verdict_->culprit))) {
    end.failure = failure_of(*culprit);
  } else {
    end.failure = JobFailure{};
    end.failure->rank = verdict_->culprit;
    end.failure->reason = verdict_->reason;
    end.failure->error = *verdict_error_;
    end.failure->progress = verdict_progress_;
    end.failure->action = verdict_action_;
  }
  return end;
}

JobFailure LocalJob::failure_of(const WorkerProcess& culprit) const {
  Progress progress = verdict_progress_;
  if (!culprit.evidence.joined && progress.phase.empty())
    progress.phase = stands_by(culprit) ? "standing by" : "starting";
  // One of this host says where it is when it joins.
  const bool known = !culprit.host.empty();
  return {.rank = culprit.evidence.rank,
          .host = known ? culprit.host : describe_this_process(0, files_).host,
          .pid = culprit.pid(),
          .reason = reason_of(culprit),
          .error = *verdict_error_,
          .progress = std::move(progress),
          .last_lines = culprit.last_lines(),
          .log = culprit.log_path(),
          .last_heard = !culprit.is_witnessed(),
          .action = verdict_action_};
}

// ---- signals

void LocalJob::on_signal(int number) {
  if (state_ == State::kOver) return;
  if (number == SIGUSR2) return ask_for_dumps(DumpOccasion::kAsked);
  const StopWishes::Wish wish = wishes_.hear(number, loop_.clock().now());
  if (wish != StopWishes::Wish::kEcho) stop(number, wish == StopWishes::Wish::kAtOnce);
}

// No wish: whoever sends SIGTERM after it, as a host does that goes down, does not insist.
void LocalJob::on_notice(const std::string& from) {
  if (state_ == State::kOver || stop_asked_) return;
  notice_ = from;
  stop(std::nullopt, false);
}

// By a signal, or by the notice.
void LocalJob::stop(std::optional<int> signal, bool insists) {
  const bool at_once = insists || !published_;
  stop_asked_ = true;
  if (state_ == State::kEnding && verdict_) {  // a failure has brought the end already
    if (at_once) kill_all();
    return check_over();
  }
  signal_ = signal_.value_or(signal.value_or(SIGTERM));
  tell_stop(signal, insists   ? Stopping::kAtOnce
                    : at_once ? Stopping::kNothingBegun
                              : Stopping::kAfterTheStep);
  if (at_once) return leave_at_once();
  coordinator_->broadcast(Stop{StopReason::kCheckpointAndExit});
  bound_beginning(signal);
  check_over();  // nobody may be there, for the moment
}

void LocalJob::tell_stop(std::optional<int> signal, Stopping how) {
  signal ? observer_.on_stop(*signal, how) : observer_.on_notice(notice_, how);
}

void LocalJob::bound_beginning(std::optional<int> signal) {
  begin_timer_ = loop_.call_at(loop_.clock().now() + spec_.begin_patience, [this, signal] {
    const bool has_begun = std::ranges::any_of(
        workers_, [](const auto& entry) { return !entry.second->progress.phase.empty(); });
    if (has_begun || state_ == State::kEnding) return;
    if (state_ == State::kSettling) return bound_beginning(signal);
    tell_stop(signal, Stopping::kNothingBegun);
    leave_at_once();
  });
}

void LocalJob::leave_at_once() {
  if (state_ != State::kEnding) verdict_.reset();
  state_ = State::kEnding;  // what now ends badly ends so by order
  kill_all();
}

}  // namespace muster::cluster
