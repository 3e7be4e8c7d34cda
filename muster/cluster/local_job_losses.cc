// Workers that the job loses: whether it can do without them, and who comes in their place.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/exit_code.h"
#include "muster/base/units.h"
#include "muster/cluster/local_job.h"

namespace muster::cluster {
namespace {

// How long a process that the system ends is waited for. Its connections break first; on a machine
// with too much to do, and with much memory to give back, it is seen to end long after. Beyond this
// a device or a file system holds it, which ends nobody knows when.
constexpr Duration kLongestEnd = std::chrono::seconds(10);
constexpr Duration kLookAgain = std::chrono::milliseconds(100);
// In which whoever started a worker elsewhere tells how it has ended, once its connection is
// broken.
constexpr Duration kToldWithin = std::chrono::seconds(2);

bool has_wrong_bits(const WorkerProcess& worker) {
  return worker.evidence.lost && worker.evidence.lost->code == ErrorCode::kCorrupt;
}

bool may_be_told_of(const WorkerProcess& worker, TimePoint now) {
  const Evidence& evidence = worker.evidence;
  return worker.is_elsewhere() && !evidence.end && evidence.lost &&
         evidence.lost->code == ErrorCode::kPeerLost && now - evidence.lost_at < kToldWithin;
}

// Of a worker that ended as it started, and could tell nobody but by its exit code.
ErrorCode code_of_start(int exit) {
  return exit == static_cast<int>(ExitCode::kEnvironment) ? ErrorCode::kUnavailable
                                                          : ErrorCode::kPeerLost;
}

}  // namespace

// How somebody's process has ended says more than that others have lost it.
bool LocalJob::awaits_an_end() {
  const TimePoint now = loop_.clock().now();
  const bool is_near = std::ranges::any_of(workers_, [&](const auto& entry) {
    const WorkerProcess& worker = *entry.second;
    return !worker.written_off && !worker.evidence.left &&
           (worker.is_ending(files_) || may_be_told_of(worker, now));
  });
  if (!is_near) return false;
  if (!ending_since_) ending_since_ = now;
  if (now - *ending_since_ >= kLongestEnd) return false;
  settle_timer_ = loop_.call_at(now + kLookAgain, [this] {
    conclude();
    check_over();
  });
  return true;
}

// What the culprit said, what others saw of it, or how it ended.
Error LocalJob::error_of(const WorkerProcess& culprit) const {
  const Rank rank = culprit.evidence.rank;
  Error error{ErrorCode::kPeerLost,
              fmt::format("[cluster/launcher] rank {} {}", to_int(rank), verdict_->reason), rank};
  if (culprit.evidence.reported) {
    error = *culprit.evidence.reported;
  } else if (!culprit.evidence.end && culprit.evidence.lost) {
    error = *culprit.evidence.lost;
  } else if (!culprit.evidence.end) {
    for (const auto& [number, other] : workers_)
      if (other->evidence.reported && other->evidence.reported->peer == rank)
        error = *other->evidence.reported;
  } else if (!culprit.evidence.joined && culprit.evidence.end->exit_status) {
    error.code = code_of_start(*culprit.evidence.end->exit_status);
  }
  error.peer = rank;
  return error;
}

// A death says nothing about the others, nor does an end without a word, or a fault of one host
// alone; a fault that all share (NaN, a full disk) would meet them too. What comes again where it
// came before would as well.
bool LocalJob::is_harmless(const WorkerProcess& culprit) const {
  const Evidence& evidence = culprit.evidence;
  if (!evidence.joined) return true;  // it has taken nothing with it
  if (const auto fault = fault_of(culprit)) return evidence.is_alone() && fault != last_fault_;
  return evidence.end || evidence.lost;
}

// What a worker gave up for, without a signal or its host being the reason.
std::optional<LocalJob::Fault> LocalJob::fault_of(const WorkerProcess& culprit) const {
  const Evidence& evidence = culprit.evidence;
  if (evidence.reported)
    return Fault{culprit.where().step, std::string(to_string(evidence.reported->code))};
  if (!evidence.end || evidence.end->signal || was_excluded(evidence)) return std::nullopt;
  return Fault{culprit.where().step, describe(*evidence.end)};
}

bool LocalJob::can_do_without(const WorkerProcess& culprit) const {
  if (!published_) return can_begin_without(culprit);
  const std::int32_t left = left_without(culprit);
  const std::int32_t wanted = least().workers;
  const bool enough =
      left >= wanted || others_may_join(left) || left + coming_without(culprit) >= wanted;
  return is_harmless(culprit) && (is_done() || (enough && (left > 0 || is_accident(culprit))));
}

// What a worker tells of itself, and nobody is left whom it does not meet, meets its successor.
bool LocalJob::is_accident(const WorkerProcess& culprit) const {
  if (culprit.is_elsewhere()) return true;
  const Evidence& evidence = culprit.evidence;
  if (!evidence.joined) return !would_start_in_vain(culprit);
  return !evidence.reported || evidence.gave_up();
}

// A worker that was not told to go leaves when all have finished and the last checkpoint is
// written.
bool LocalJob::is_done() const {
  return std::ranges::any_of(workers_, [](const auto& entry) {
    return entry.second->evidence.left && !entry.second->drained;
  });
}

// Who stands by is counted among those who are left: it has the place of the next one that is lost.
bool LocalJob::is_in(const WorkerProcess& worker) const {
  return published_ && spec_.standbys == 0 ? worker.evidence.joined : worker.here;
}

bool LocalJob::stands_by(const WorkerProcess& worker) const {
  return published_ && spec_.standbys > 0 && worker.here && !worker.evidence.joined;
}

bool LocalJob::takes_part(const WorkerProcess& worker) const {
  return !worker.written_off && !worker.ended() && is_in(worker) && !worker.evidence.left;
}

std::int32_t LocalJob::left_without(const WorkerProcess& culprit) const {
  return static_cast<std::int32_t>(std::ranges::count_if(workers_, [&](const auto& entry) {
    return entry.second.get() != &culprit && takes_part(*entry.second);
  }));
}

// A majority is one of the present generation, as decide_membership() counts it.
Least LocalJob::least() const {
  const auto majority = static_cast<std::int32_t>(members_.size()) / 2 + 1;
  if (!spec_.majority || !published_ || majority <= spec_.min_workers) return {spec_.min_workers};
  return {majority, "workers.majority"};
}

// Of this host; those that left as they were told are not missed.
std::vector<std::int32_t> LocalJob::missing_without(const WorkerProcess& culprit) const {
  std::vector<std::int32_t> missing;
  for (const auto& [number, worker] : workers_) {
    if (worker->is_elsewhere() || worker->evidence.left) continue;
    if (worker.get() == &culprit || !takes_part(*worker)) missing.push_back(number);
  }
  return missing;
}

bool LocalJob::others_may_join(std::int32_t left) const {
  return spec_.listen && !spec_.credentials.empty() && left < spec_.max_workers;
}

// Those that have been started and not joined yet, and the one that will be for `culprit`.
std::int32_t LocalJob::coming_without(const WorkerProcess& culprit) const {
  const auto under_way = std::ranges::count_if(workers_, [&](const auto& entry) {
    const auto& worker = entry.second;
    return worker.get() != &culprit && !worker->written_off && !worker->ended() && !is_in(*worker);
  });
  return static_cast<std::int32_t>(under_way) + (may_replace(culprit) ? 1 : 0);
}

// Nobody is here, but others are waited for.
bool LocalJob::awaits_others() const {
  return state_ == State::kRunning && published_ && waiting_timer_ && !signal_ &&
         others_may_join(0);
}

// All have ended, and none of them because the training was over.
void LocalJob::end_unfinished() {
  verdict_ = Verdict{*last_loss_, "was lost, and nobody is left", true, {}};
  verdict_error_ = fail(ErrorCode::kPeerLost,
                        "[cluster/launcher] nobody is left to go on with the training, and no new "
                        "worker comes; go on with --resume",
                        *last_loss_);
  verdict_action_ = "the job ends";
}

void LocalJob::give_up_waiting() {
  if (state_ != State::kRunning && state_ != State::kSettling) return;
  state_ = State::kEnding;
  const std::string patience = format_duration(spec_.join_timeout) + " (workers.join_timeout)";
  if (published_) {
    verdict_ = Verdict{*last_loss_, "was not replaced in time", true, {}};
    verdict_error_ = fail(ErrorCode::kTimeout,
                          fmt::format("[cluster/launcher] fewer than {} workers ({}) were left, "
                                      "and no new one has joined within {}; go on with --resume",
                                      least().workers, least().rule, patience),
                          *last_loss_);
  } else {
    verdict_ = Verdict{kNoRank, "too few workers have joined", true, {}};
    verdict_error_ = fail(
        ErrorCode::kTimeout,
        fmt::format("[cluster/launcher] fewer than {} workers (workers.min_workers) have joined "
                    "within {}; start the others with `muster worker --join`, and raise it if they "
                    "take longer to come",
                    spec_.min_workers, patience));
  }
  verdict_action_ = "the job ends";
  end_all(*verdict_error_);
}

void LocalJob::write_off(WorkerProcess& culprit) {
  if (culprit.evidence.joined)
    if (auto fault = fault_of(culprit)) last_fault_ = std::move(fault);
  verdict_error_ = error_of(culprit);
  verdict_progress_ = culprit.where();
  verdict_action_.clear();
  culprit.read_rest();  // its end is often seen before its last lines
  const JobFailure loss = failure_of(culprit);
  culprit.written_off = true;
  culprit.hear_no_more();
  culprit.kill();  // one that only hangs must not come back
  state_ = State::kRunning;
  verdict_.reset();
  last_loss_ = culprit.evidence.rank;
  const Remainder left = remainder_without(culprit);
  tell_loss(culprit, loss, left);
  replace(culprit);
  if (!culprit.evidence.joined) note_start(culprit);
  if (published_ && left.wanted > 0)
    waiting_timer_ =
        loop_.call_at(loop_.clock().now() + spec_.join_timeout, [this] { give_up_waiting(); });
  if (!dump_timer_) tell_dumps();
  consider();
  tell_held_reports();
  check_over();
}

Remainder LocalJob::remainder_without(const WorkerProcess& culprit) const {
  if (!published_)
    return {.workers = starting_without(&culprit),
            .wanted = may_replace(culprit) ? 1 : 0,
            .missing = {},
            .begun = false};
  const std::int32_t left = left_without(culprit);
  const std::int32_t wanted = is_done() ? 0 : std::max(0, least().workers - left);
  const bool was_member = culprit.evidence.joined && !has_wrong_bits(culprit);
  return {.workers = left,
          .wanted = wanted,
          .missing = missing_without(culprit),
          .rule = least().rule,
          .regroups = was_member && wanted == 0 && left > 0 && !is_done()};
}

// Once may be an accident; of a second time the host is the reason, and a new process is no help.
bool LocalJob::distrusts_host_of(const WorkerProcess& culprit) const {
  return wrong_bits_of(culprit.remote_host()) + (has_wrong_bits(culprit) ? 1 : 0) > 1;
}

std::int32_t LocalJob::wrong_bits_of(const std::string& remote_host) const {
  const auto found = wrong_bits_.find(remote_host);
  return found == wrong_bits_.end() ? 0 : found->second;
}

bool LocalJob::may_replace(const WorkerProcess& culprit) const {
  const bool can_start = culprit.remote_host().empty() || !spec_.remote.can_start ||
                         spec_.remote.can_start(to_int(culprit.evidence.rank));
  return restarts_.allows(loop_.clock().now(), step_at_loss(culprit)) && !signal_ &&
         !culprit.is_elsewhere() && can_start && !distrusts_host_of(culprit) &&
         may_start_again(culprit) && !is_one_more(culprit);
}

// Where the job is then; one that has yet to get the state is nowhere itself.
Step LocalJob::step_at_loss(const WorkerProcess& culprit) const {
  const Step own = culprit.where().step;
  return to_int(own) > 0 ? own : newest_step();
}

// The new one gets ready and then joins; the others train on meanwhile.
void LocalJob::replace(const WorkerProcess& culprit) {
  if (culprit.is_elsewhere()) return;
  const Rank rank = culprit.evidence.rank;
  const bool may = may_replace(culprit);
  if (has_wrong_bits(culprit) && distrusts_host_of(culprit))
    observer_.on_distrust(rank, culprit.remote_host());
  if (has_wrong_bits(culprit)) ++wrong_bits_[culprit.remote_host()];
  if (!may || is_done()) return;
  restarts_.spend(loop_.clock().now(), step_at_loss(culprit));
  if (start(to_int(rank))) observer_.on_restart(rank, find(to_int(rank))->pid());
}

// A standby costs nothing to send away where another can stand by elsewhere; on its own host, which
// is wanted back, one more would be sent away as well. No restart: nothing was lost.
void LocalJob::move_standby(const WorkerProcess& gone) {
  const Rank rank = gone.evidence.rank;
  const bool has_gone = gone.drained && gone.evidence.left && gone.ended();
  const bool stood_by = published_ && spec_.standbys > 0 && !gone.evidence.joined;
  if (!has_gone || !stood_by || find(to_int(rank)) != &gone) return;
  if (state_ != State::kRunning || signal_ || is_done()) return;
  const auto spare = std::ranges::find_if(spares_, [&](const std::string& host) {
    return host != gone.remote_host() && wrong_bits_of(host) <= 1;
  });
  if (spare == spares_.end()) return;
  std::string& home = homes_[to_int(rank)];
  const std::string before = std::exchange(home, *spare);
  if (!start(to_int(rank))) {
    home = before;
    return;
  }
  spares_.erase(spare);
  observer_.on_standby_moved(rank, home);
}

// One that joins those who train, or those who have yet to begin.
bool LocalJob::start(std::int32_t worker) {
  const auto home = homes_.find(worker);
  auto started = spawn_(worker, published_, home == homes_.end() ? "" : home->second);
  if (!started) {
    log_->warn("[cluster/launcher] {}", started.error().message);
    return false;
  }
  auto& place = workers_[worker];
  if (place) replaced_.push_back(std::move(place));
  place = std::move(*started);
  admit(*place);
  watch(*place);
  return true;
}

}  // namespace muster::cluster
