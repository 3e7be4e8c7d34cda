// Those who come from elsewhere: their numbers, and whether they and the others reach each other.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_set>

#include "muster/cluster/coordinator.h"

namespace muster::cluster {
namespace {

// Containers of one machine share its boot id, and have addresses of their own.
bool have_one_host(const WorkerInfo& a, const WorkerInfo& b) {
  const auto address = [](const WorkerInfo& info) {
    return std::string_view(info.door).substr(0, info.door.rfind(':'));
  };
  return !a.boot_id.empty() && a.boot_id == b.boot_id && address(a) == address(b);
}

}  // namespace

// Those of its own host it always does; of the others all who are in, or may come in with it.
void CoordinatorState::ask_to_reach(PeerId peer, Worker& worker, TimePoint now) {
  Candidate& newcomer = worker.candidate;
  if (newcomer.reaches || !newcomer.connected || newcomer.leaving || newcomer.lost) return;
  std::set<PeerId> missing;
  Reach request;
  for (const auto& [other, known] : workers_) {
    const WorkerInfo& info = known.candidate.info;
    const bool counts = is_alive(now, known.candidate, options_.policy) && known.candidate.reaches;
    if (other == peer || !counts || worker.reached.contains(other)) continue;
    if (have_one_host(info, newcomer.info)) continue;
    if (info.door.empty() || newcomer.info.door.empty()) continue;  // nobody can try
    missing.insert(other);
    request.workers.push_back(info);
  }
  newcomer.reaches = missing.empty();
  const bool is_asked = std::ranges::includes(worker.asked, missing);
  worker.asked = std::move(missing);
  if (!is_asked) actions_.emplace_back(SendAction{peer, std::move(request)});
}

// What they were asked for may not be needed any more, or not enough.
void CoordinatorState::ask_newcomers_to_reach(TimePoint now) {
  for (auto& [peer, worker] : workers_) ask_to_reach(peer, worker, now);
}

void CoordinatorState::note_reached(PeerId peer, Worker& worker, const Reached& message,
                                    TimePoint now) {
  for (const PeerId other : worker.asked) {
    const auto known = workers_.find(other);
    if (known == workers_.end()) continue;
    const auto number = known->second.candidate.info.worker;
    if (std::ranges::count(message.workers, number) > 0) worker.reached.insert(other);
  }
  ask_to_reach(peer, worker, now);
  if (worker.candidate.reaches) last_join_ = now;
  decide(now);
}

void CoordinatorState::note_unreached(Worker& worker, const Unreached& message) {
  const auto is_meant = [&](const auto& entry) {
    return worker.asked.contains(entry.first) &&
           entry.second.candidate.info.worker == message.worker;
  };
  const auto other = std::ranges::find_if(workers_, is_meant);
  if (other == workers_.end() || !worker.told_about.insert(message.worker).second) return;
  tell([newcomer = worker.candidate.info, info = other->second.candidate.info,
        why = message.why](const CoordinatorEvents& events) {
    if (events.on_unreached) events.on_unreached(newcomer, info, why);
  });
}

// The numbers after the launcher's own are for those who come from elsewhere.
std::optional<std::int32_t> CoordinatorState::free_number() const {
  std::unordered_set<std::int32_t> taken;
  for (const auto& [peer, worker] : workers_)
    if (worker.candidate.connected) taken.insert(worker.candidate.info.worker);
  for (const auto& [peer, number] : enlisted_) taken.insert(number);
  for (std::int32_t number = options_.own; number < options_.policy.max_workers; ++number)
    if (!taken.contains(number)) return number;
  return std::nullopt;
}

// Containers of several machines may have one name. Where either side hides its boot id the name
// alone counts.
bool CoordinatorState::distrusts(const std::string& host, const std::string& boot_id) const {
  return std::ranges::any_of(distrusted_, [&](const auto& known) {
    const bool is_other = !boot_id.empty() && !known.second.empty() && boot_id != known.second;
    return known.first == host && !is_other;
  });
}

void CoordinatorState::enlist(PeerId peer, const Enlist& message) {
  const std::string from =
      fmt::format("[cluster/join] a worker from {} (pid {}) ", message.host, message.pid);
  if (ending_) return refuse(peer, from + "comes too late: the training is over");
  if (message.version != options_.version)
    return refuse(
        peer,
        from + fmt::format("is not let in: all need the same version, and {} is there, {} here; "
                           "install the launcher's on that host",
                           message.version.empty() ? "another muster" : message.version,
                           options_.version));
  if (distrusts(message.host, message.boot_id))
    return refuse(peer, from +
                            "is not let in again: one from there held other bits than the others "
                            "(replicas.compare_every); its memory or processor is faulty");
  if (message.worker >= options_.own)
    return refuse(peer, from + fmt::format("asks to be worker {}, and the launcher starts 0 to {}",
                                           message.worker, options_.own - 1));
  const auto number = message.worker >= 0 ? std::optional(message.worker) : free_number();
  if (!number) {
    return refuse(peer, from + fmt::format("finds no place: all {} (workers.max_workers) are taken",
                                           options_.policy.max_workers));
  }
  // What is still to come of the one before it is not of this one.
  std::erase_if(enlisted_, [&](const auto& entry) { return entry.second == *number; });
  enlisted_[peer] = *number;
  Enlisted answer = options_.enlistment;
  answer.worker = *number;
  answer.workers = std::max(*number + 1, options_.policy.start_workers);
  actions_.emplace_back(SendAction{peer, std::move(answer)});
}

// Each is compared with those that have come before it, since nobody says whose is the right one.
// They are of one version, so that any of them will do: no join looks at all others.
bool CoordinatorState::is_of_one_version(PeerId peer, const Join& message) {
  const auto other = std::ranges::find_if(workers_, [](const auto& entry) {
    return entry.second.candidate.connected && !entry.second.candidate.lost;
  });
  if (other == workers_.end() || other->second.version == message.version) return true;
  const auto told = [](const WorkerInfo& info, const std::string& version) {
    return fmt::format("worker {} on {} (pid {}) is of {}", info.worker, info.host, info.pid,
                       version.empty() ? "a muster that does not say which" : version);
  };
  const Error why =
      fail(ErrorCode::kInvalid,
           fmt::format("[cluster/join] all workers need the same muster, and {}, {}; install, or "
                       "build with, the same on both hosts",
                       told(message.info, message.version),
                       told(other->second.candidate.info, other->second.version)));
  refuse(peer, why.message);
  tell([why](const CoordinatorEvents& events) {
    if (events.on_other_version) events.on_other_version(why);
  });
  return false;
}

void CoordinatorState::note_end(PeerId peer, const Ended& message) {
  const auto place = enlisted_.find(peer);
  if (place == enlisted_.end())
    return refuse(peer, "[cluster/coordinator] a peer without a place told of a worker's end");
  tell([number = place->second, message](const CoordinatorEvents& events) {
    if (events.on_ended) events.on_ended(number, message);
  });
}

}  // namespace muster::cluster
