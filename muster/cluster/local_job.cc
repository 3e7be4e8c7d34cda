#include "muster/cluster/local_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "muster/base/units.h"
#include "muster/cluster/environment.h"
#include "muster/cluster/memory_kills.h"

namespace muster::cluster {
namespace {

// How long a first, uncertain sign of failure waits for the better one that often follows it.
constexpr Duration kSettle = std::chrono::milliseconds(150);
// How long a message is waited for after its sender has ended.
constexpr Duration kHears = std::chrono::milliseconds(500);
// So many times the scale rule is asked before a host that does not answer is tried again.
constexpr int kRest = 10;

}  // namespace

LocalJob::LocalJob(net::SystemLoop& loop, const LaunchSpec& spec, LaunchObserver& observer,
                   Files& files, Logger log, std::function<void()> on_over)
    : loop_(loop),
      spec_(spec),
      observer_(observer),
      files_(files),
      log_(std::move(log)),
      on_over_(std::move(on_over)),
      spares_(spec.remote.spares),
      restarts_(spec.max_restarts, spec.restart_window),
      rests_(kRest * spec.scale_every),
      memory_kills_(memory_kills(files)) {}

WorkerProcess* LocalJob::find(std::int32_t worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? nullptr : found->second.get();
}

void LocalJob::note_generation(const Welcome& generation) {
  published_ = true;
  waiting_timer_ = nullptr;
  generation_ = generation.generation;
  if (!asked_ && !has_looked_into()) dumps_.clear();  // they are of an earlier one
  members_.clear();
  for (const auto& member : generation.members) {
    members_.push_back(member.info.worker);
    if (auto* worker = find(member.info.worker)) {
      if (!worker->evidence.joined) {
        worker->since = generation.generation;
        rests_.come_up(worker->remote_host());
      }
      worker->evidence.joined = true;
      worker->meet(member.info);
      failed_starts_.erase(member.info.worker);
    }
  }
  observer_.on_generation(generation);
}

CoordinatorEvents LocalJob::coordinator_events() {
  CoordinatorEvents events;
  events.on_generation = [this](const Welcome& generation) { note_generation(generation); };
  events.on_progress = [this](std::int32_t number, const Progress& progress) {
    if (auto* worker = find(number)) worker->progress = progress;
    observer_.on_progress(Rank{number}, progress);
  };
  events.on_report = [this](std::int32_t number, const Bytes& content) {
    if (auto* worker = find(number)) worker->heard();
    hear_report(Rank{number}, content);
  };
  events.on_dumped = [this](std::int32_t number, const Bytes& content) {
    take_dump(number, content);
  };
  events.on_leave = [this](std::int32_t number, const Leave& leave) {
    if (leave.signal != 0 && !worker_signal_) worker_signal_ = leave.signal;
    if (auto* worker = find(number)) {
      worker->take_leave();
      bound_exit(*worker);
      move_standby(*worker);
    }
    if (coordinator_ != nullptr && is_done()) drop_latecomers();
    consider();
    check_over();
  };
  events.on_ended = [this](std::int32_t number, const Ended& ended) {
    if (auto* worker = find(number)) worker->take_end(ended, loop_.clock().now());
    consider();
    check_over();
  };
  events.on_no_answer = [this] { look_into_no_answer(); };
  events.on_failure = [this](std::int32_t number, const Failure& failure) {
    hear_failure(number, failure);
  };
  events.on_lost = [this](std::int32_t number, const Error& why) {
    // Else it is of the process before: that one told of its failure first.
    if (const auto* worker = find(number); worker != nullptr && worker->here) lose(number, why);
  };
  events.on_join_timeout = [this](const Error& why) {
    bool is_here = true;
    for (const auto& [number, worker] : workers_) {
      if (worker->evidence.joined || worker->here || worker->written_off) continue;
      is_here = false;
      lose(number, why);
    }
    if (is_here) give_up_waiting();
  };
  events.on_drain = [this](std::int32_t number, Departure how) {
    const bool all_stop = how == Departure::kAllStop;
    if (auto* worker = find(number)) worker->drained = !all_stop;
    observer_.on_drain(Rank{number}, how);
    if (all_stop) coordinator_->broadcast(Stop{StopReason::kCheckpointAndExit});
  };
  events.on_stay = [this](std::int32_t number) { observer_.on_stay(Rank{number}); };
  events.on_join = [this](const WorkerInfo& info) { welcome(info); };
  events.on_unreached = [this](const auto& newcomer, const auto& other, const std::string& why) {
    observer_.on_unreached(newcomer, other, why);
  };
  return events;
}

void LocalJob::hear_failure(std::int32_t number, const Failure& failure) {
  auto* worker = find(number);
  if (worker == nullptr || worker->evidence.reported) return;
  if (failure.error.code == ErrorCode::kTimeout) look_into_no_answer();
  worker->progress = failure.progress;
  worker->evidence.reported = failure.error;
  worker->evidence.concerns = failure.concerns;
  worker->evidence.accused = process_meant(failure);
  worker->evidence.reported_at = loop_.clock().now();
  consider();
}

void LocalJob::lose(std::int32_t number, const Error& why) {
  auto* worker = find(number);
  if (worker == nullptr || worker->evidence.lost) return;
  worker->evidence.stood_by = stands_by(*worker);
  worker->evidence.lost = why;
  worker->evidence.lost_at = loop_.clock().now();
  worker->gone();
  tell_dumps_if_complete();
  consider();
  check_over();
}

void LocalJob::admit(WorkerProcess& worker) { worker.evidence.process = ++processes_seen_; }

// Members accuse members of their generation. One that has come since for another is none of them.
std::int64_t LocalJob::process_meant(const Failure& failure) const {
  const WorkerProcess* worker = find(to_int(failure.error.peer));
  if (worker == nullptr) return 0;
  const bool was_there = worker->evidence.joined && worker->since <= failure.generation;
  return was_there || !published_ ? worker->evidence.process : 0;
}

// One of ours, or one that another host has started.
void LocalJob::welcome(const WorkerInfo& info) {
  auto* worker = find(info.worker);
  if (worker == nullptr || (worker->is_elsewhere() && worker->ended())) {
    auto& place = workers_[info.worker];
    if (place) replaced_.push_back(std::move(place));
    place = std::make_unique<WorkerProcess>(info, log_);
    worker = place.get();
    admit(*worker);
    ++arrived_;
    observer_.on_arrival(info);
  }
  worker->here = true;
  if (spec_.standbys > 0) failed_starts_.erase(info.worker);  // it may wait for ever to be a member
  worker->meet(info);
}

void LocalJob::begin(Coordinator& coordinator, std::vector<std::unique_ptr<WorkerProcess>> workers,
                     Spawn spawn) {
  coordinator_ = &coordinator;
  spawn_ = std::move(spawn);
  for (auto& worker : workers) {
    admit(*worker);
    watch(*worker);
    workers_[to_int(worker->evidence.rank)] = std::move(worker);
  }
  if (spec_.scale) scale_later();
  if (spec_.min_workers > spec_.workers)
    observer_.on_waiting(spec_.min_workers - spec_.workers, spec_.workers);
}

// It has done all it had to, and is not looked after any more: a hang in what runs as a process
// ends would keep the launcher for ever.
void LocalJob::bound_exit(WorkerProcess& worker) {
  worker.exit_timer = loop_.call_at(loop_.clock().now() + spec_.exit_patience, [this, &worker] {
    if (worker.ended()) return;
    log_->warn(
        "[cluster/launcher] worker {} (pid {}) was done {} ago, and its process has not "
        "ended: it hangs in what runs at its end (an exit handler, a file system), and is "
        "killed",
        to_int(worker.evidence.rank), worker.pid(), format_duration(spec_.exit_patience));
    worker.kill();
  });
}

// The training is over before they were ready for it.
void LocalJob::drop_latecomers() {
  for (auto& [number, worker] : workers_) {
    if (worker->evidence.joined || worker->here) continue;
    worker->written_off = true;
    worker->kill();
  }
}

void LocalJob::watch(WorkerProcess& worker) {
  const Rank rank = worker.evidence.rank;
  worker.watch(loop_, {[this, rank](bool is_error, std::string_view line) {
                         observer_.on_line(rank, is_error, line);
                       },
                       [this, &worker] {
                         consider();
                         move_standby(worker);
                         check_over();
                       },
                       [this] { check_over(); }});
}

// ---- failure

void LocalJob::consider() {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  std::vector<Evidence> evidence;
  evidence.reserve(workers_.size());
  for (const auto& [number, worker] : workers_) {
    if (worker->written_off) continue;
    evidence.push_back(worker->evidence);
    if (worker->is_heard_out() || !worker->evidence.end) continue;
    evidence.back().end.reset();
    hear_out();
  }
  verdict_ = judge(evidence, signal_ ? std::optional(128 + *signal_) : std::nullopt);
  if (!verdict_) return tell_held_reports();
  if (verdict_->certain) return conclude();
  if (state_ == State::kSettling) return;
  state_ = State::kSettling;
  ending_since_.reset();
  settle_timer_ = loop_.call_at(loop_.clock().now() + kSettle, [this] { conclude(); });
}

// What a worker said last may explain its end, and has perhaps not been read yet.
void LocalJob::hear_out() {
  if (hear_timer_) return;
  hear_timer_ = loop_.call_at(loop_.clock().now() + kHears, [this] {
    hear_timer_ = nullptr;
    for (WorkerProcess* worker : all())
      if (worker->ended()) worker->hear_out();
    consider();
    check_over();
  });
}

void LocalJob::conclude() {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  settle_timer_ = nullptr;
  if (!verdict_) {  // what looked like a failure has turned out to be the end somebody asked for
    state_ = State::kRunning;
    if (!dump_timer_) tell_dumps();
    return tell_held_reports();
  }
  if (!verdict_->certain && awaits_stacks()) return;  // tell_dumps() comes back here
  if (!verdict_->certain && awaits_an_end()) return;  // which is certain: consider() comes back
  auto* culprit = find(to_int(verdict_->culprit));
  if (culprit != nullptr) take_account(*culprit);
  if (culprit != nullptr && culprit->lost_session())
    verdict_->reason = fmt::format("lost its {} session", spec_.remote.carrier);
  if (culprit != nullptr && can_do_without(*culprit)) return write_off(*culprit);
  state_ = State::kEnding;
  verdict_error_ = culprit != nullptr ? error_of(*culprit)
                                      : Error{ErrorCode::kInternal, verdict_->reason, kNoRank};
  if (culprit != nullptr) {
    verdict_progress_ = culprit->where();
    verdict_action_ =
        why_it_ends(culprit->evidence, published_, left_without(*culprit), least(),
                    culprit->evidence.joined ? last_fault_ && fault_of(*culprit) == last_fault_
                                             : ended_as_one_before(*culprit));
  }
  end_all(*verdict_error_);
  tell_held_reports();
}

// ---- reports: what comes of a loss is told after it

void LocalJob::hear_report(Rank rank, const Bytes& content) {
  held_reports_.emplace_back(rank, content);
  tell_held_reports();
}

bool LocalJob::is_considering() const {
  if (state_ == State::kEnding || state_ == State::kOver) return false;
  return state_ == State::kSettling || std::ranges::any_of(workers_, [](const auto& entry) {
           const WorkerProcess& worker = *entry.second;
           return worker.evidence.end && !worker.written_off && !worker.is_heard_out();
         });
}

void LocalJob::tell_held_reports() {
  if (is_considering()) return;
  for (const auto& [rank, content] : std::exchange(held_reports_, {}))
    observer_.on_report(rank, content);
}

}  // namespace muster::cluster
