// When the coordinator has to look next.
#include <algorithm>

#include "muster/cluster/coordinator.h"

namespace muster::cluster {
namespace {

constexpr Duration kLookAgain = std::chrono::milliseconds(200);

}  // namespace

TimePoint CoordinatorState::next_clock(TimePoint now) const noexcept {
  TimePoint next = TimePoint::max();
  const auto consider = [&](TimePoint at) {
    if (at > now) next = std::min(next, at);
  };
  if (generation_ == Generation{0} && !gave_up_) consider(started_ + options_.join_timeout);
  if (last_join_) consider(*last_join_ + options_.policy.settle);
  if (!ending_) consider(suspicions_.due());
  consider(silence_due_ > now ? silence_due_ : first_silence(now));
  return next;
}

// When the patience with one of those ends that are listened to.
TimePoint CoordinatorState::first_silence(TimePoint after) const noexcept {
  TimePoint first = TimePoint::max();
  for (const auto& [peer, worker] : workers_) {
    const Candidate& candidate = worker.candidate;
    if (!candidate.connected || candidate.leaving) continue;
    const TimePoint end = candidate.silence.last_heard() + patience(candidate, options_.policy);
    if (end > after) first = std::min(first, end);
    if (candidate.needed && !candidate.lost) first = std::min(first, next_look(candidate, after));
  }
  return first;
}

// Whoever is needed may be so no longer, once another is heard of again.
TimePoint CoordinatorState::next_look(Candidate candidate, TimePoint after) const noexcept {
  candidate.needed = false;
  const TimePoint end = candidate.silence.last_heard() + patience(candidate, options_.policy);
  return std::max(end, after + kLookAgain);
}

void CoordinatorState::note_needed_workers(TimePoint now) {
  std::vector<Candidate*> candidates;
  candidates.reserve(workers_.size());
  for (auto& [peer, worker] : workers_) candidates.push_back(&worker.candidate);
  note_needed(now, candidates, options_.policy);
}

// What is learnt of its heartbeats may also shorten the patience with it.
void CoordinatorState::expect_heartbeat(const Worker& worker) noexcept {
  silence_due_ = std::min(silence_due_, worker.candidate.silence.last_heard() +
                                            patience(worker.candidate, options_.policy));
}

}  // namespace muster::cluster
