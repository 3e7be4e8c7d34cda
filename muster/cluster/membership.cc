#include "muster/cluster/membership.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace muster::cluster {
namespace {

std::string name(const Candidate& candidate) {
  return fmt::format("worker {} ({}, pid {})", candidate.info.worker, candidate.info.host,
                     candidate.info.pid);
}

using Numbers = std::unordered_set<std::int32_t>;

Numbers numbers_of(const std::vector<std::int32_t>& workers) {
  return {workers.begin(), workers.end()};
}

// The view, with everybody found by number: a decision about n workers takes no n² steps.
class Roster {
 public:
  explicit Roster(const MembershipView& view)
      : candidates(view.candidates),
        current(view.current),
        last_join(view.last_join),
        current_(numbers_of(view.current)),
        replaced_(numbers_of(view.replaced)) {
    for (const Candidate& candidate : candidates)
      by_number_.emplace(candidate.info.worker, &candidate);
  }

  bool is_member(std::int32_t worker) const { return current_.contains(worker); }
  bool is_replaced(std::int32_t worker) const { return replaced_.contains(worker); }
  bool has_replaced() const noexcept { return !replaced_.empty(); }
  const Candidate* candidate_of(std::int32_t worker) const {
    const auto found = by_number_.find(worker);
    return found == by_number_.end() ? nullptr : found->second;
  }

  const std::vector<Candidate>& candidates;
  const std::vector<std::int32_t>& current;
  const std::optional<TimePoint> last_join;

 private:
  const Numbers current_;
  const Numbers replaced_;
  std::unordered_map<std::int32_t, const Candidate*> by_number_;
};

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
std::string losses(TimePoint now, const Roster& view, const MembershipPolicy& policy) {
  std::string text;
  for (const auto& candidate : view.candidates) {
    if (!view.is_member(candidate.info.worker)) continue;
    const bool replaced = view.is_replaced(candidate.info.worker);
    if (is_alive(now, candidate, policy) && !replaced) continue;
    text += (text.empty() ? "" : ", ") +
            (replaced ? name(candidate) + " comes anew" : why_dead(now, candidate));
  }
  return text;
}

// `with_drained`: also members that are to go and have the state.
std::map<std::int32_t, bool> alive_by_worker(TimePoint now, const Roster& view,
                                             const MembershipPolicy& policy, bool with_drained) {
  std::map<std::int32_t, bool> alive;
  for (const auto& candidate : view.candidates) {
    const bool hands_over =
        with_drained && candidate.whole && view.is_member(candidate.info.worker);
    const bool goes = candidate.draining && !hands_over;
    alive[candidate.info.worker] |= is_alive(now, candidate, policy) && !goes && candidate.reaches;
  }
  return alive;
}

bool can_lead(const Roster& view, std::int32_t worker) {
  const Candidate* candidate = view.candidate_of(worker);
  return candidate != nullptr && candidate->connected && candidate->info.can_lead;
}

// It is to go, and is still there.
bool is_on_its_way(TimePoint now, std::int32_t worker, const Roster& view,
                   const MembershipPolicy& policy) {
  const Candidate* member = view.candidate_of(worker);
  return member != nullptr && member->draining && is_alive(now, *member, policy) &&
         !view.is_replaced(worker);
}

// Those of the present generation, in their order, who are here or here again; in the place of who
// is lost the first standby that can take it.
std::vector<std::int32_t> same_ranks(TimePoint now, const std::map<std::int32_t, bool>& alive,
                                     const Roster& view, const MembershipPolicy& policy,
                                     std::size_t& survivors) {
  std::vector<std::int32_t> standbys;
  for (const auto& [worker, lives] : alive)
    if (lives && !view.is_member(worker)) standbys.push_back(worker);
  std::vector<std::int32_t> members;
  for (const auto worker : view.current) {
    const auto known = alive.find(worker);
    const bool is_here = known != alive.end() && known->second;
    const bool is_first = worker == view.current.front();
    if (is_here && (!is_first || can_lead(view, worker))) {
      members.push_back(worker);
      if (!view.is_replaced(worker)) ++survivors;
      continue;
    }
    const auto standby = std::ranges::find_if(
        standbys, [&](std::int32_t other) { return !is_first || can_lead(view, other); });
    // Of one that is to go the part of the state would go with it: all stop with a checkpoint.
    const bool is_filled = policy.standbys > 0 && standby != standbys.end() &&
                           !is_on_its_way(now, worker, view, policy);
    if (is_filled) {
      members.push_back(*standby);
      standbys.erase(standby);
    } else if (is_here) {
      members.push_back(worker);
    }
  }
  return members;
}

std::int32_t most_members(const MembershipPolicy& policy) noexcept {
  return policy.max_workers - (policy.keeps_ranks ? policy.standbys : 0);
}

// Survivors in their order, then newcomers by number, no more than there may be members.
std::vector<std::int32_t> proposal(TimePoint now, std::map<std::int32_t, bool> alive,
                                   const Roster& view, const MembershipPolicy& policy,
                                   std::size_t& survivors) {
  if (policy.keeps_ranks && !view.current.empty())
    return same_ranks(now, alive, view, policy, survivors);
  std::vector<std::int32_t> members;
  for (const auto worker : view.current) {
    if (view.is_replaced(worker)) continue;
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

bool any_is_whole(const std::vector<std::int32_t>& members, const Roster& view) {
  const Numbers among = numbers_of(members);
  return std::ranges::any_of(view.candidates, [&](const Candidate& candidate) {
    return candidate.connected && candidate.whole && among.contains(candidate.info.worker);
  });
}

std::vector<std::int32_t> draining(const std::vector<std::int32_t>& members, const Roster& view) {
  std::vector<std::int32_t> those;
  const Numbers among = numbers_of(members);
  for (const Candidate& candidate : view.candidates)
    if (candidate.connected && candidate.draining && among.contains(candidate.info.worker))
      those.push_back(candidate.info.worker);
  return those;
}

// Who comes from elsewhere may be here before the launcher's own, who alone begin with a state.
bool has_state(const std::vector<std::int32_t>& members, const Roster& view) {
  const Numbers among = numbers_of(members);
  return std::ranges::any_of(view.candidates, [&](const Candidate& candidate) {
    return candidate.connected && candidate.info.has_state && among.contains(candidate.info.worker);
  });
}

// Puts one that may lead first, the longest there; false: there is none.
bool put_leader_first(std::vector<std::int32_t>& members, const Roster& view) {
  const auto leader =
      std::ranges::find_if(members, [&](std::int32_t worker) { return can_lead(view, worker); });
  if (leader == members.end()) return false;
  std::rotate(members.begin(), leader, leader + 1);
  return true;
}

// Has one that may lead be first; of those who keep their ranks nobody is put in another's place.
// Why that cannot be; empty: it is so.
std::string why_not_led(std::vector<std::int32_t>& members, const Roster& view,
                        const MembershipPolicy& policy) {
  const bool stay = policy.keeps_ranks && !view.current.empty();
  if (stay && !can_lead(view, members.front()))
    return fmt::format("worker {}, the first rank, does not see the run's folder", members.front());
  if (!stay && !put_leader_first(members, view))
    return fmt::format("none of {} workers sees the run's folder", members.size());
  return {};
}

std::int32_t least_of(const Roster& view, const MembershipPolicy& policy) {
  if (view.current.empty()) return least_for_first_generation(policy);
  return policy.keeps_ranks ? static_cast<std::int32_t>(view.current.size()) : policy.min_workers;
}

bool lacks_majority(TimePoint now, const std::vector<std::int32_t>& members, const Roster& view,
                    const MembershipPolicy& policy) {
  if (!policy.majority || policy.keeps_ranks || view.current.empty()) return false;
  const Numbers among = numbers_of(members);
  const auto accounted = std::ranges::count_if(view.current, [&](std::int32_t worker) {
    return among.contains(worker) || is_on_its_way(now, worker, view, policy);
  });
  return 2 * accounted <= std::ssize(view.current);
}

// Who of a job with standbys has a rank would else depend on who comes first.
bool awaits_standbys(const std::map<std::int32_t, bool>& alive, const Roster& view,
                     const MembershipPolicy& policy) {
  const auto here = std::ranges::count_if(alive, [](const auto& entry) { return entry.second; });
  return policy.standbys > 0 && view.current.empty() && here < policy.start_workers;
}

// Of the present generation nobody is left, nor comes back: all that they held is lost.
bool are_all_gone(const Roster& view) {
  return std::ranges::all_of(view.current, [&](std::int32_t worker) {
    if (view.is_replaced(worker)) return true;
    const Candidate* member = view.candidate_of(worker);
    return member == nullptr || !member->connected || member->leaving || member->cut_off ||
           member->lost;
  });
}

bool still_settling(TimePoint now, std::size_t count, const Roster& view,
                    const MembershipPolicy& policy) {
  return static_cast<std::int32_t>(count) < most_members(policy) && view.last_join &&
         now - *view.last_join < policy.settle;
}

}  // namespace

std::int32_t least_for_first_generation(const MembershipPolicy& policy) noexcept {
  return std::min(std::max(policy.min_workers, policy.start_workers), most_members(policy));
}

// All that are stopped at once, as a host stops them, fall silent and wake one by one: whoever was
// heard of a little later than another is no proof that somebody is there, and who is heard of
// first again none that the others are dead.
void note_needed(TimePoint now, const std::vector<Candidate*>& candidates,
                 const MembershipPolicy& policy) {
  const Candidate* newest = nullptr;  // of those who can hand the state on, the last heard of
  for (const Candidate* one : candidates) {
    const bool can = one->whole && one->connected && !one->leaving && !one->draining &&
                     !one->cut_off && !one->lost;
    if (can && (!newest || one->silence.last_heard() > newest->silence.last_heard())) newest = one;
  }
  for (Candidate* one : candidates) {
    const TimePoint last = one->silence.last_heard();
    const Duration usual = one->silence.patience(policy.heartbeat_timeout);
    const bool silent = now - last >= usual;
    const bool alone = !newest || newest->silence.last_heard() <= last + usual / 2;
    if (policy.learns && one->needed && silent && !alone) one->silence.excuse(now);
    one->needed = silent && alone;
  }
}

bool is_alive(TimePoint now, const Candidate& candidate, const MembershipPolicy& policy) {
  return candidate.connected && !candidate.leaving && !candidate.cut_off && !candidate.lost &&
         now - candidate.silence.last_heard() < patience(candidate, policy);
}

Duration patience(const Candidate& candidate, const MembershipPolicy& policy) noexcept {
  const bool learns =
      policy.learns && !candidate.needed && candidate.info.worker < policy.irreplaceable_from;
  return learns ? candidate.silence.patience(policy.heartbeat_timeout) : policy.heartbeat_timeout;
}

MembershipDecision decide_membership(TimePoint now, const MembershipView& known,
                                     const MembershipPolicy& policy) {
  const Roster view(known);
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
  if (const auto why = why_not_led(members, view, policy); !why.empty())
    return {std::nullopt, why + because};
  if (members == view.current && !view.has_replaced())
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
