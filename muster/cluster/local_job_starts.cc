// Of a local job: workers that are lost as they start. An accident may happen then as later; but
// what the program or the job is the reason of would happen to every process, again and again.
#include <algorithm>
#include <csignal>

#include "muster/base/exit_code.h"
#include "muster/cluster/local_job.h"

namespace muster::cluster {
namespace {

constexpr int kMostFailedStarts = 3;  // of one place in a row; then no other one is started there

}  // namespace

// Before all have joined.
bool LocalJob::can_begin_without(const WorkerProcess& culprit) const {
  if (culprit.is_elsewhere()) return true;  // somebody else may come
  const bool enough = may_replace(culprit) || starting_without(&culprit) >= spec_.min_workers;
  return enough && !would_start_in_vain(culprit);
}

// A kill comes from outside, and who does not come in time says nothing of the others.
bool LocalJob::would_start_in_vain(const WorkerProcess& culprit) const {
  const Evidence& evidence = culprit.evidence;
  if (!evidence.is_alone()) return true;
  const auto ended_with = [&](ExitCode code) {
    return evidence.end && evidence.end->exit_status == static_cast<int>(code);
  };
  if (ended_with(ExitCode::kUsage)) return true;
  // What this host lacks, such as processes, its next worker lacks as well.
  if (ended_with(ExitCode::kEnvironment) && culprit.remote_host().empty()) return true;
  return ended_as_one_before(culprit);
}

bool LocalJob::ended_as_one_before(const WorkerProcess& culprit) const {
  const auto& end = culprit.evidence.end;
  return end && end->signal != SIGKILL && describe(*end) == last_failed_start_;
}

// Of this host and of others, joined or not.
std::int32_t LocalJob::starting_without(const WorkerProcess* culprit) const {
  return static_cast<std::int32_t>(std::ranges::count_if(workers_, [&](const auto& entry) {
    const auto& worker = entry.second;
    return worker.get() != culprit && !worker->written_off && !worker->ended() &&
           !worker->evidence.left;
  }));
}

// One that has not joined in time had all of it.
bool LocalJob::may_start_again(const WorkerProcess& culprit) const {
  if (!published_ && !culprit.evidence.end && !culprit.here) return false;
  return !starts_fail_at(to_int(culprit.evidence.rank));
}

bool LocalJob::starts_fail_at(std::int32_t worker) const {
  const auto failed = failed_starts_.find(worker);
  return failed != failed_starts_.end() && failed->second >= kMostFailedStarts;
}

// It has perhaps been replaced already.
void LocalJob::note_start(const WorkerProcess& culprit) {
  if (is_one_more(culprit)) return;
  if (!culprit.is_elsewhere()) ++failed_starts_[to_int(culprit.evidence.rank)];
  if (culprit.evidence.end) last_failed_start_ = describe(*culprit.evidence.end);
  if (!published_) coordinator_->expect(starting_without(nullptr));
}

}  // namespace muster::cluster
