#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "muster/base/units.h"
#include "muster/cluster/coordinator.h"
#include "muster/cluster/port_owner.h"

namespace muster::cluster {
namespace {

// How long a death is waited for that explains whom others miss.
constexpr Duration kExplained = std::chrono::seconds(1);

// What is due is done later than this only where this process did not run.
constexpr Duration kAsleep = std::chrono::milliseconds(100);

// In a sleep this long operations run out of their time. A machine that has too much to do does not
// make one: there a hang would be excused again and again.
constexpr Duration kLongAsleep = std::chrono::seconds(1);

// A worker may tell late of what it met: the ranks of so many generations are known.
constexpr std::size_t kRemembered = 8;

Rank rank_of(const std::vector<std::int32_t>& members, std::int32_t worker) {
  const auto found = std::find(members.begin(), members.end(), worker);
  return found == members.end() ? kNoRank : Rank(found - members.begin());
}

// For questions about each of n workers, which must not take n² steps.
using RankByWorker = std::unordered_map<std::int32_t, Rank>;

RankByWorker ranks_by_worker(const std::vector<std::int32_t>& members) {
  RankByWorker ranks;
  for (const auto worker : members)
    ranks.emplace(worker, Rank{static_cast<std::int32_t>(ranks.size())});
  return ranks;
}

Rank rank_in(const RankByWorker& ranks, std::int32_t worker) {
  const auto found = ranks.find(worker);
  return found == ranks.end() ? kNoRank : found->second;
}

// "worker 2", "workers 0, 1 and 3".
std::string named_workers(const std::vector<std::int32_t>& workers) {
  std::string text = workers.size() == 1 ? "worker " : "workers ";
  for (std::size_t i = 0; i < workers.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == workers.size() ? " and " : ", ", workers[i]);
  return text;
}

}  // namespace

CoordinatorState::CoordinatorState(CoordinatorOptions options, TimePoint now, Logger log)
    : options_(std::move(options)),
      started_(now),
      awake_(now),
      log_(std::move(log)),
      suspicions_(kExplained, options_.calm) {}

std::vector<Action> CoordinatorState::take_actions() { return std::exchange(actions_, {}); }

void CoordinatorState::tell(std::function<void(const CoordinatorEvents&)> what) {
  actions_.emplace_back(TellAction{std::move(what)});
}

CoordinatorState::Worker* CoordinatorState::find_worker(std::int32_t worker) {
  const auto peer = peers_.find(worker);
  return peer == peers_.end() ? nullptr : &workers_.at(peer->second);
}

// Who stops a whole job, with Ctrl-Z or by a scheduler, or its host, stops who listens as well.
void CoordinatorState::wake(TimePoint now) {
  const TimePoint before = std::exchange(awake_, now);
  const auto was_awake = [&](TimePoint due) {
    return due == TimePoint::max() || now - due <= kAsleep;
  };
  if (was_awake(next_clock(before))) return;
  silence_due_ = first_silence(before);
  const TimePoint due = next_clock(before);
  if (was_awake(due)) return;
  const bool long_asleep = now - due >= kLongAsleep;
  log_->log(long_asleep ? spdlog::level::info : spdlog::level::debug,
            "[cluster/coordinator] did not run for {:.1f} s: silence until now does not count",
            std::chrono::duration<double>(now - due).count());
  for (auto& [peer, worker] : workers_) worker.candidate.silence.excuse(now);
  if (long_asleep) suspicions_.excuse();
}

std::vector<Action> CoordinatorState::on_message(PeerId peer, const Message& message,
                                                 TimePoint now) {
  wake(now);
  if (const auto* hello = std::get_if<Join>(&message)) {
    join(peer, *hello, now);
    return take_actions();
  }
  if (const auto* offer = std::get_if<Enlist>(&message)) {
    enlist(peer, *offer);
    return take_actions();
  }
  if (const auto* ended = std::get_if<Ended>(&message)) {
    note_end(peer, *ended);
    return take_actions();
  }
  const auto found = workers_.find(peer);
  if (found == workers_.end()) {
    refuse(peer,
           fmt::format("[cluster/coordinator] a peer sent \"{}\" before it joined", name(message)));
    return take_actions();
  }
  found->second.candidate.silence.heard(now);
  expect_heartbeat(found->second);
  on_member_message(peer, found->second, message, now);
  return take_actions();
}

void CoordinatorState::on_member_message(PeerId peer, Worker& worker, const Message& message,
                                         TimePoint now) {
  const auto number = worker.candidate.info.worker;
  if (const auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    const Progress& told = heartbeat->progress;
    const bool goes_on = told.step != worker.progress.step || told.phase != worker.progress.phase;
    if (goes_on) worker.at_it_since = now;
    worker.progress = told;
    tell([number, progress = heartbeat->progress](const CoordinatorEvents& events) {
      if (events.on_progress) events.on_progress(number, progress);
    });
  } else if (const auto* report = std::get_if<Report>(&message)) {
    tell([number, content = report->content](const CoordinatorEvents& events) {
      if (events.on_report) events.on_report(number, content);
    });
  } else if (const auto* dumped = std::get_if<Dumped>(&message)) {
    tell([number, content = dumped->content](const CoordinatorEvents& events) {
      if (events.on_dumped) events.on_dumped(number, content);
    });
  } else if (const auto* failure = std::get_if<Failure>(&message)) {
    tell([number, failure = by_worker(*failure)](const CoordinatorEvents& events) {
      if (events.on_failure) events.on_failure(number, failure);
    });
  } else if (const auto* quarantine = std::get_if<Quarantine>(&message)) {
    worker.candidate.leaving = true;
    const WorkerInfo& info = worker.candidate.info;
    if (number >= options_.own) distrusted_.emplace(info.host, info.boot_id);
    lose(worker, quarantine->why);
    decide(now);
  } else if (const auto* suspicion = std::get_if<Suspect>(&message)) {
    suspect(worker, *suspicion, now);
  } else if (const auto* reached = std::get_if<Reached>(&message)) {
    note_reached(peer, worker, *reached, now);
  } else if (const auto* unreached = std::get_if<Unreached>(&message)) {
    note_unreached(worker, *unreached);
  } else if (const auto* request = std::get_if<StoreRequest>(&message)) {
    for (auto& [to, reply] : values_.ask(peer, *request))
      actions_.emplace_back(SendAction{to, std::move(reply)});
  } else if (const auto* asked = std::get_if<AskTime>(&message)) {
    actions_.emplace_back(SendAction{peer, TellTime{asked->asked, now}});
  } else if (const auto* wish = std::get_if<Drain>(&message)) {
    drain(peer, worker, *wish, now);
  } else if (std::holds_alternative<Whole>(message)) {
    if (!std::exchange(worker.candidate.whole, true)) decide(now);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    if (worker.candidate.lost) return;  // it is none of them any more
    worker.candidate.leaving = true;
    // Who was dismissed, or is no member yet, only goes; a member that leaves has finished, and so
    // do the others.
    if (rank_of(current_, number) != kNoRank && rank_of(replaced_, number) == kNoRank) end();
    tell([number, leave = *leave](const CoordinatorEvents& events) {
      if (events.on_leave) events.on_leave(number, leave);
    });
  } else {
    refuse(peer, fmt::format("[cluster/coordinator] {} sent \"{}\", which only a coordinator may",
                             describe(worker.candidate.info), name(message)));
  }
}

void CoordinatorState::refuse(PeerId peer, std::string why) {
  actions_.emplace_back(CloseAction{peer, fail(ErrorCode::kInvalid, std::move(why))});
}

void CoordinatorState::turn_away(PeerId peer) {
  actions_.emplace_back(SendAction{peer, Dismiss{Generation{to_int(generation_) + 1}}});
}

// The training is over; whoever is still on the way into it is not needed. So is a member of some
// generations that still lacks the state: who has it goes now.
void CoordinatorState::end() {
  if (std::exchange(ending_, true)) return;
  const RankByWorker members = ranks_by_worker(current_);
  const RankByWorker newcomers = ranks_by_worker(newcomers_);
  for (const auto& [peer, worker] : workers_) {
    const std::int32_t number = worker.candidate.info.worker;
    const bool arrives =
        !members.contains(number) || newcomers.contains(number) || !worker.candidate.whole;
    if (arrives && worker.candidate.connected && !worker.candidate.leaving) turn_away(peer);
  }
}

// A member goes with the next generation, or, where nobody else has the state, once others have got
// it; whoever is not let in yet has nobody to wait for.
void CoordinatorState::drain(PeerId peer, Worker& worker, const Drain& message, TimePoint now) {
  if (std::exchange(worker.candidate.draining, true)) return;
  const std::int32_t who = worker.candidate.info.worker;
  const bool member = rank_of(current_, who) != kNoRank && rank_of(replaced_, who) == kNoRank;
  if (current_.empty() && options_.policy.standbys > 0)
    --options_.policy.start_workers;  // nobody comes in its place
  decide(now);
  if (!member) turn_away(peer);
  const bool stays = member && rank_of(current_, who) != kNoRank;
  const bool hands_over = stays && std::ranges::count(kept_, who) > 0;
  if (stays && !hands_over && message.can_stay) {
    worker.candidate.draining = false;
    actions_.emplace_back(SendAction{peer, Stay{}});
    decide(now);
    return tell([number = who](const CoordinatorEvents& events) {
      if (events.on_stay) events.on_stay(number);
    });
  }
  const Departure departure = hands_over ? Departure::kOnceOthersHaveTheState
                              : stays    ? Departure::kAllStop
                                         : Departure::kWithTheStep;
  tell([number = who, departure](const CoordinatorEvents& events) {
    if (events.on_drain) events.on_drain(number, departure);
  });
}

// A worker accuses ranks of the generation in which it failed; whoever launched it knows workers.
Failure CoordinatorState::by_worker(Failure failure) const {
  const auto in = std::ranges::find(formed_, failure.generation, &Formed::generation);
  const auto rank = static_cast<std::size_t>(to_int(failure.error.peer));
  const bool is_known = in != formed_.end() && rank < in->members.size();
  failure.error.peer = is_known ? Rank{in->members[rank]} : kNoRank;
  return failure;
}

// `known`: the one that has joined; null: the same peer has, as another.
std::string CoordinatorState::why_twice(const Worker* known) const {
  if (known == nullptr || !known->candidate.connected || options_.meeting.port == 0)
    return "a worker of this number has joined already";
  const WorkerInfo& info = known->candidate.info;
  return seat_is_taken(options_.meeting, info.worker, info.host, info.pid);
}

void CoordinatorState::join(PeerId peer, const Join& message, TimePoint now) {
  const auto* known = find_worker(message.info.worker);
  const bool twice = workers_.contains(peer) || (known != nullptr && known->candidate.connected);
  const bool misnumbered =
      message.info.worker < 0 || message.info.worker >= options_.policy.max_workers;
  if (twice || misnumbered) {
    return refuse(peer, fmt::format("[cluster/join] {} is refused: {}", describe(message.info),
                                    twice ? why_twice(known)
                                          : fmt::format("workers are numbered 0 to {}",
                                                        options_.policy.max_workers - 1)));
  }
  if (!is_of_one_version(peer, message)) return;
  if (known != nullptr) workers_.erase(PeerId{known->peer});
  if (rank_of(current_, message.info.worker) != kNoRank) replaced_.push_back(message.info.worker);
  Worker& worker = workers_[peer] = Worker{};
  peers_[message.info.worker] = peer;
  worker.peer = peer;
  worker.candidate.info = message.info;
  worker.version = message.version;
  worker.candidate.joined_at = now;
  worker.candidate.info.has_state &= current_.empty();
  worker.candidate.whole = worker.candidate.info.has_state;
  worker.candidate.silence.heard(now);
  expect_heartbeat(worker);
  last_join_ = now;
  tell([info = message.info](const CoordinatorEvents& events) {
    if (events.on_join) events.on_join(info);
  });
  if (ending_) turn_away(peer);
  worker.candidate.reaches = current_.empty();
  ask_to_reach(peer, worker, now);
  decide(now);
}

std::vector<Action> CoordinatorState::on_closed(PeerId peer, const Error& why, TimePoint now) {
  wake(now);
  enlisted_.erase(peer);
  const auto found = workers_.find(peer);
  if (found == workers_.end()) return take_actions();
  auto& worker = found->second;
  worker.candidate.connected = false;
  values_.forget(peer);
  if (!worker.candidate.leaving)
    lose(worker,
         fail(ErrorCode::kPeerLost, fmt::format("[cluster/coordinator] {} broke its connection: {}",
                                                describe(worker.candidate.info), why.message)));
  decide(now);
  return take_actions();
}

std::vector<Action> CoordinatorState::on_clock(TimePoint now) {
  wake(now);
  note_needed_workers(now);
  for (auto& [peer, worker] : workers_) {
    const auto& candidate = worker.candidate;
    const auto silent = now - candidate.silence.last_heard();
    if (candidate.leaving || !candidate.connected || is_alive(now, candidate, options_.policy))
      continue;
    lose(
        worker,
        fail(ErrorCode::kTimeout,
             fmt::format("[cluster/heartbeat] {} has been silent for {:.1f} s; it hangs, "
                         "is stopped, or its host is; raise workers.heartbeat_timeout if its "
                         "host is only slow",
                         describe(candidate.info), std::chrono::duration<double>(silent).count())));
  }
  silence_due_ = first_silence(now);
  settle_suspicions(now);
  decide(now);
  if (generation_ == Generation{0} && !gave_up_ && now - started_ >= options_.join_timeout) {
    gave_up_ = true;
    tell(
        [why = fail(ErrorCode::kTimeout,
                    fmt::format("[cluster/join] {} in time ({}); start whoever is missing, and see "
                                "the logs of those that were started",
                                missing_workers(), format_duration(options_.join_timeout)))](
            const CoordinatorEvents& events) {
          if (events.on_join_timeout) events.on_join_timeout(why);
        });
  }
  return take_actions();
}

std::string CoordinatorState::missing_workers() const {
  std::vector<std::int32_t> missing;
  const auto expected = std::max(options_.policy.min_workers, options_.policy.start_workers);
  for (std::int32_t worker = 0; worker < expected; ++worker) {
    const bool here = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
      return entry.second.candidate.info.worker == worker && entry.second.candidate.connected;
    });
    if (!here) missing.push_back(worker);
  }
  return fmt::format("{} (of {}) did not join", named_workers(missing), expected);
}

void CoordinatorState::lose(Worker& worker, Error why) {
  if (std::exchange(worker.candidate.lost, true)) return;
  why.peer = Rank{worker.candidate.info.worker};
  tell([number = worker.candidate.info.worker,
        why = std::move(why)](const CoordinatorEvents& events) {
    if (events.on_lost) events.on_lost(number, why);
  });
  if (worker.candidate.connected && !worker.candidate.leaving) exclude(worker);
}

void CoordinatorState::decide(TimePoint now) {
  if (ending_) return;
  const std::int32_t least = least_for_first_generation(options_.policy);
  if (current_.empty() && std::ssize(workers_) < least) {  // n joins need not look at n² workers
    reason_ = fmt::format("{} of at least {} workers have joined", workers_.size(), least);
    return;
  }
  note_needed_workers(now);
  ask_newcomers_to_reach(now);
  MembershipView view{{}, current_, replaced_, last_join_};
  for (const auto& [peer, worker] : workers_) view.candidates.push_back(worker.candidate);
  auto decision = decide_membership(now, view, options_.policy);
  if (decision.reason != reason_) log_->debug("[cluster/membership] {}", decision.reason);
  reason_ = std::move(decision.reason);
  kept_ = std::move(decision.kept);
  if (decision.members && (*decision.members != current_ || !replaced_.empty() || again_))
    publish(*decision.members, decision.planned && !again_, now);
}

void CoordinatorState::publish(const std::vector<std::int32_t>& members, bool planned,
                               TimePoint now) {
  const RankByWorker before = ranks_by_worker(current_);
  const RankByWorker after = ranks_by_worker(members);
  const RankByWorker replaced = ranks_by_worker(replaced_);
  newcomers_.clear();
  for (auto& [peer, worker] : workers_) {
    Candidate& candidate = worker.candidate;
    if (!after.contains(candidate.info.worker))  // the others go on from there without it
      candidate.info.has_state = candidate.whole = false;
  }
  if (!before.empty()) {
    std::ranges::copy_if(members, std::back_inserter(newcomers_), [&](std::int32_t worker) {
      return !before.contains(worker) || replaced.contains(worker);
    });
  }
  replaced_.clear();
  again_ = false;
  suspicions_.on_generation(now);
  complaints_.clear();
  current_ = members;
  generation_ = Generation{to_int(generation_) + 1};
  if (formed_.size() == kRemembered) formed_.erase(formed_.begin());
  formed_.push_back({generation_, members});
  std::vector<MemberInfo> infos;
  infos.reserve(members.size());
  for (const auto worker : members)
    infos.push_back(
        {Rank{static_cast<std::int32_t>(infos.size())}, find_worker(worker)->candidate.info});
  Welcome welcome{generation_, kNoRank, std::move(infos), planned};
  tell([welcome](const CoordinatorEvents& events) {
    if (events.on_generation) events.on_generation(welcome);
  });
  for (auto& [peer, worker] : workers_) {
    welcome.rank = rank_in(after, worker.candidate.info.worker);
    if (welcome.rank != kNoRank) {
      actions_.emplace_back(SendAction{peer, welcome});
      if (stop_) actions_.emplace_back(SendAction{peer, *stop_});
    }
    const bool dismissed = worker.candidate.draining && welcome.rank == kNoRank &&
                           before.contains(worker.candidate.info.worker);
    if (dismissed) actions_.emplace_back(SendAction{peer, Dismiss{generation_}});
  }
}

// One that was silent and may wake up, or that others cannot reach, must learn that it is given up,
// also where too few are left to go on at once: else it and another one work on in a generation
// that is over, and its number stays taken. Whatever it still says, it is none of them any more; as
// a new process it may come.
void CoordinatorState::exclude(Worker& worker) {
  Candidate& candidate = worker.candidate;
  candidate.leaving = true;
  actions_.emplace_back(CloseAction{
      worker.peer, fail(ErrorCode::kStale,
                        fmt::format("[cluster/membership] {} {} and is no longer part of the job",
                                    describe(candidate.info),
                                    candidate.cut_off ? "is out of the others' reach"
                                                      : "was silent for too long"))});
}

std::vector<Action> CoordinatorState::broadcast(const Message& message) {
  if (const auto* stop = std::get_if<Stop>(&message)) stop_ = *stop;
  for (const auto& [peer, worker] : workers_)
    if (worker.candidate.connected) actions_.emplace_back(SendAction{peer, message});
  return take_actions();
}

std::vector<Action> CoordinatorState::let_go(std::int32_t worker) {
  const Worker* known = find_worker(worker);
  if (known != nullptr && known->candidate.connected && !known->candidate.leaving)
    actions_.emplace_back(SendAction{known->peer, Drain{}});
  return take_actions();
}

std::vector<Action> CoordinatorState::expect(std::int32_t workers, TimePoint now) {
  if (generation_ > Generation{0}) return {};
  wake(now);
  options_.policy.start_workers = workers;
  started_ = now;
  gave_up_ = false;
  decide(now);
  return take_actions();
}

}  // namespace muster::cluster
