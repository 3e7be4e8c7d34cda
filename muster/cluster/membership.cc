#include "muster/cluster/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace muster::cluster {
namespace {

std::string name(const Candidate& candidate) {
  return fmt::format("worker {} ({}, pid {})", candidate.info.worker, candidate.info.host,
                     candidate.info.pid);
}

bool contains(const std::vector<std::int32_t>& workers, std::int32_t worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

std::string why_dead(TimePoint now, const Candidate& candidate) {
  if (candidate.leaving && !candidate.lost) return name(candidate) + " has left";
  if (!candidate.connected) return name(candidate) + " has lost its connection";
  if (candidate.cut_off) return name(candidate) + " is out of the others' reach";
  if (candidate.lost) return name(candidate) + " was given up";
  const Duration silent = now - candidate.silence.last_heard();
  return fmt::format("{} has been silent for {:.1f} s", name(candidate),
                     std::chrono::duration<double>(silent).count());
}

// The dead of the present generation, in words; empty when all live.
std::string losses(TimePoint now, const MembershipView& view, const MembershipPolicy& policy) {
  std::string text;
  for (const auto& candidate : view.candidates) {
    if (!contains(view.current, candidate.info.worker)) continue;
    const bool replaced = contains(view.replaced, candidate.info.worker);
    if (is_alive(now, candidate, policy) && !replaced) continue;
    text += (text.empty() ? "" : ", ") +
            (replaced ? name(candidate) + " comes anew" : why_dead(now, candidate));
  }
  return text;
}

// `with_drained`: also members that are to go and have the state.
std::map<std::int32_t, bool> alive_by_worker(TimePoint now, const MembershipView& view,
                                             const MembershipPolicy& policy, bool with_drained) {
  std::map<std::int32_t, bool> alive;
  for (const auto& candidate : view.candidates) {
    const bool hands_over =
        with_drained && candidate.whole && contains(view.current, candidate.info.worker);
    const bool goes = candidate.draining && !hands_over;
    alive[candidate.info.worker] |= is_alive(now, candidate, policy) && !goes && candidate.reaches;
  }
  return alive;
}

const Candidate* candidate_of(const MembershipView& view, std::int32_t worker) {
  const auto found = std::ranges::find(
      view.candidates, worker, [](const Candidate& candidate) { return candidate.info.worker; });
  return found == view.candidates.end() ? nullptr : &*found;
}

bool can_lead(const MembershipView& view, std::int32_t worker) {
  const Candidate* candidate = candidate_of(view, worker);
  return candidate != nullptr && candidate->connected && candidate->info.can_lead;
}

// It is to go, and is still there.
bool is_on_its_way(TimePoint now, std::int32_t worker, const MembershipView& view,
                   const MembershipPolicy& policy) {
  const Candidate* member = candidate_of(view, worker);
  return member != nullptr && member->draining && is_alive(now, *member, policy) &&
         !contains(view.replaced, worker);
}

// Those of the present generation, in their order, who are here or here again; in the place of who
// is lost the first standby that can take it.
std::vector<std::int32_t> same_ranks(TimePoint now, const std::map<std::int32_t, bool>& alive,
                                     const MembershipView& view, const MembershipPolicy& policy,
                                     std::size_t& survivors) {
  std::vector<std::int32_t> standbys;
  for (const auto& [worker, lives] : alive)
    if (lives && !contains(view.current, worker)) standbys.push_back(worker);
  std::vector<std::int32_t> members;
  for (const auto worker : view.current) {
    const auto known = alive.find(worker);
    if (known != alive.end() && known->second) {
      members.push_back(worker);
      if (!contains(view.replaced, worker)) ++survivors;
      continue;
    }
    const bool is_first = worker == view.current.front();
    const auto standby = std::ranges::find_if(
        standbys, [&](std::int32_t other) { return !is_first || can_lead(view, other); });
    // Of one that is to go the part of the state would go with it: all stop with a checkpoint.
    const bool is_filled = policy.standbys > 0 && standby != standbys.end() &&
                           !is_on_its_way(now, worker, view, policy);
    if (!is_filled) continue;
    members.push_back(*standby);
    standbys.erase(standby);
  }
  return members;
}

std::int32_t most_members(const MembershipPolicy& policy) noexcept {
  return policy.max_workers - (policy.keeps_ranks ? policy.standbys : 0);
}

// Survivors in their order, then newcomers by number, no more than there may be members.
std::vector<std::int32_t> proposal(TimePoint now, std::map<std::int32_t, bool> alive,
                                   const MembershipView& view, const MembershipPolicy& policy,
                                   std::size_t& survivors) {
  if (policy.keeps_ranks && !view.current.empty())
    return same_ranks(now, alive, view, policy, survivors);
  std::vector<std::int32_t> members;
  for (const auto worker : view.current) {
    if (contains(view.replaced, worker)) continue;
    if (alive[worker]) members.push_back(worker);
    alive.erase(worker);
  }
  survivors = members.size();
  for (const auto& [worker, lives] : alive)
    if (lives) members.push_back(worker);
  const auto most = std::max(static_cast<std::size_t>(most_members(policy)), survivors);
  if (members.size() > most) members.resize(most);
  return members;
}

bool any_is_whole(const std::vector<std::int32_t>& members, const MembershipView& view) {
  return std::ranges::any_of(view.candidates, [&](const Candidate& candidate) {
    return candidate.connected && candidate.whole && contains(members, candidate.info.worker);
  });
}

std::vector<std::int32_t> draining(const std::vector<std::int32_t>& members,
                                   const MembershipView& view) {
  std::vector<std::int32_t> those;
  for (const Candidate& candidate : view.candidates)
    if (candidate.connected && candidate.draining && contains(members, candidate.info.worker))
      those.push_back(candidate.info.worker);
  return those;
}

// Who comes from elsewhere may be here before the launcher's own, who alone begin with a state.
bool has_state(const std::vector<std::int32_t>& members, const MembershipView& view) {
  return std::ranges::any_of(view.candidates, [&](const Candidate& candidate) {
    return candidate.connected && candidate.info.has_state &&
           contains(members, candidate.info.worker);
  });
}

// Puts one that may lead first, the longest there; false: there is none.
bool put_leader_first(std::vector<std::int32_t>& members, const MembershipView& view) {
  const auto leader =
      std::ranges::find_if(members, [&](std::int32_t worker) { return can_lead(view, worker); });
  if (leader == members.end()) return false;
  std::rotate(members.begin(), leader, leader + 1);
  return true;
}

std::int32_t least_of(const MembershipView& view, const MembershipPolicy& policy) {
  if (view.current.empty()) return least_for_first_generation(policy);
  return policy.keeps_ranks ? static_cast<std::int32_t>(view.current.size()) : policy.min_workers;
}

bool lacks_majority(TimePoint now, const std::vector<std::int32_t>& members,
                    const MembershipView& view, const MembershipPolicy& policy) {
  if (!policy.majority || policy.keeps_ranks || view.current.empty()) return false;
  const auto accounted = std::ranges::count_if(view.current, [&](std::int32_t worker) {
    return contains(members, worker) || is_on_its_way(now, worker, view, policy);
  });
  return 2 * accounted <= std::ssize(view.current);
}

// Who of a job with standbys has a rank would else depend on who comes first.
bool awaits_standbys(const std::map<std::int32_t, bool>& alive, const MembershipView& view,
                     const MembershipPolicy& policy) {
  const auto here = std::ranges::count_if(alive, [](const auto& entry) { return entry.second; });
  return policy.standbys > 0 && view.current.empty() && here < policy.start_workers;
}

// Of the present generation nobody is left, nor comes back: all that they held is lost.
bool are_all_gone(const MembershipView& view) {
  return std::ranges::all_of(view.current, [&](std::int32_t worker) {
    if (contains(view.replaced, worker)) return true;
    const Candidate* member = candidate_of(view, worker);
    return member == nullptr || !member->connected || member->leaving || member->cut_off ||
           member->lost;
  });
}

bool still_settling(TimePoint now, std::size_t count, const MembershipView& view,
                    const MembershipPolicy& policy) {
  return static_cast<std::int32_t>(count) < most_members(policy) && view.last_join &&
         now - *view.last_join < policy.settle;
}

}  // namespace

std::int32_t least_for_first_generation(const MembershipPolicy& policy) noexcept {
  return std::min(std::max(policy.min_workers, policy.start_workers), most_members(policy));
}

bool is_alive(TimePoint now, const Candidate& candidate, const MembershipPolicy& policy) {
  return candidate.connected && !candidate.leaving && !candidate.cut_off && !candidate.lost &&
         now - candidate.silence.last_heard() < patience(candidate, policy);
}

Duration patience(const Candidate& candidate, const MembershipPolicy& policy) noexcept {
  const bool learns = policy.learns && candidate.info.worker < policy.irreplaceable_from;
  return learns ? candidate.silence.patience(policy.heartbeat_timeout) : policy.heartbeat_timeout;
}

MembershipDecision decide_membership(TimePoint now, const MembershipView& view,
                                     const MembershipPolicy& policy) {
  std::size_t survivors = 0;
  const auto alive = alive_by_worker(now, view, policy, false);
  auto members = proposal(now, alive, view, policy, survivors);
  const bool enough = static_cast<std::int32_t>(members.size()) >= least_of(view, policy);
  if (enough && !view.current.empty() && !policy.keeps_ranks && !any_is_whole(members, view))
    members = proposal(now, alive_by_worker(now, view, policy, true), view, policy, survivors);
  const std::vector<std::int32_t> kept = draining(members, view);
  const auto lost = losses(now, view, policy);
  const auto because = lost.empty() ? "" : ": " + lost;
  const bool begins_anew = !view.current.empty() && survivors == 0;
  if (begins_anew && !are_all_gone(view))
    return {std::nullopt, fmt::format("none of the {} members is left to hand over the state{}",
                                      view.current.size(), because)};
  const auto least = least_of(view, policy);
  if (static_cast<std::int32_t>(members.size()) < least)
    return {std::nullopt,
            fmt::format("{} of at least {} workers are here{}", members.size(), least, because)};
  if (lacks_majority(now, members, view, policy))
    return {std::nullopt, fmt::format("no majority of the {} members is here (workers.majority){}",
                                      view.current.size(), because)};
  if (awaits_standbys(alive, view, policy))
    return {std::nullopt, "waiting for those that are to stand by"};
  if (view.current.empty() && !has_state(members, view))
    return {std::nullopt, fmt::format("none of {} workers has the state that the training begins "
                                      "with",
                                      members.size())};
  if (!put_leader_first(members, view))
    return {std::nullopt,
            fmt::format("none of {} workers sees the run's folder{}", members.size(), because)};
  if (members == view.current && view.replaced.empty())
    return {members, fmt::format("all {} members are well", members.size()), false, kept};
  const bool settles = still_settling(now, members.size(), view, policy);
  if (begins_anew && settles) return {std::nullopt, "waiting whether more workers join" + because};
  if (!view.current.empty() && lost.empty() && survivors == view.current.size() && settles)
    return {view.current, "waiting whether more workers join", false, kept};
  return {members,
          fmt::format("{} workers, {} of them from before{}", members.size(), survivors, because),
          lost.empty() && !view.current.empty(), kept};
}

}  // namespace muster::cluster
