#pragma once
// For the test of every path: the workers of a job, and what they see of the coordinator's state
// machine. It checks the rules of memberships at every turn, as assertions of the test under way.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "muster/cluster/coordinator.h"

namespace muster::cluster::paths {

using std::chrono::seconds;
using Workers = std::vector<std::int32_t>;

inline constexpr seconds kCalm{30};  // see Suspicions

enum class Status : std::uint8_t { kHere, kSilent, kDraining, kLeft, kGone };
enum class Event : std::uint8_t {
  kBreak,
  kFallSilent,
  kWake,
  kDrain,
  kResign,
  kLeave,
  kComeAgain,
  kSuspect,
  kQuarantine,
  kQuiet
};
inline constexpr Event kAll[] = {
    Event::kBreak, Event::kFallSilent, Event::kWake,    Event::kDrain,      Event::kResign,
    Event::kLeave, Event::kComeAgain,  Event::kSuspect, Event::kQuarantine, Event::kQuiet};

struct Job {
  std::int32_t workers;
  std::int32_t least;
  std::int32_t later = 0;  // so many of the workers are not there at the beginning
  bool keeps_ranks = false;
  std::int32_t standbys = 0;  // so many of the workers have no rank
  bool majority = false;      // see MembershipPolicy
};

struct Worker {
  Status status = Status::kHere;
  PeerId peer = 0;         // of its connection
  bool has_state = false;  // as this process
  bool anew = false;       // a member that has come again as another process since
  bool newcomer = false;   // of the present generation
  bool given_up = false;   // silent, or out of reach; as this process it stays so
  bool drains = false;     // it wishes to go,
  bool dismissed = false;  // and may
  bool cast_out = false;   // told that the others go on without it
};

// The world around the coordinator, as the workers see it.
struct World {
  Job job;
  CoordinatorState coordinator;
  TimePoint now{seconds(100)};
  std::vector<Worker> all;
  PeerId last_peer = 0;
  Welcome last{};  // what the members of the present generation were told
  Workers members;
  TimePoint began{};                                        // of the present generation
  bool suspected = false;                                   // the next suspicion costs somebody
  std::map<std::int32_t, std::set<std::int32_t>> accusers;  // by accused, of this generation
  bool over = false;                                        // somebody has finished
  std::vector<std::pair<Event, std::int32_t>> path;         // so far

  explicit World(const Job& of)
      : job(of), coordinator(options(of), TimePoint(seconds(100)), create_null_logger()) {
    all.resize(static_cast<std::size_t>(job.workers), {.status = Status::kGone});
    for (std::int32_t worker = 0; worker < job.workers - job.later; ++worker) {
      all[static_cast<std::size_t>(worker)] = {.peer = ++last_peer};
      say(worker, Join{{worker, "h", "b", 1, {}}});
    }
  }

  static CoordinatorOptions options(const Job& job) {
    CoordinatorOptions options;
    options.policy.start_workers = job.workers - job.later;
    options.policy.max_workers = job.workers;
    options.policy.min_workers = job.least;
    options.policy.heartbeat_timeout = seconds(10);
    options.policy.keeps_ranks = job.keeps_ranks;
    options.policy.standbys = job.standbys;
    options.policy.majority = job.majority;
    return options;
  }

  Worker& of(std::int32_t worker) { return all[static_cast<std::size_t>(worker)]; }
  const Worker& of(std::int32_t worker) const { return all[static_cast<std::size_t>(worker)]; }
  bool is_member(std::int32_t worker) const { return std::ranges::count(members, worker) > 0; }
  bool is_connected(std::int32_t worker) const {
    return of(worker).status != Status::kGone && of(worker).status != Status::kLeft;
  }

  // But for the workers' names. Two bytes a worker, since there are millions of them.
  std::string situation() const {
    const auto add = [](std::string& text, const Worker& w) {
      text += static_cast<char>('0' + static_cast<int>(w.status));
      text += static_cast<char>('!' + (w.anew ? 1 : 0) + (w.has_state ? 2 : 0) +
                                (w.newcomer ? 4 : 0) + (w.given_up ? 8 : 0) + (w.drains ? 16 : 0) +
                                (w.dismissed ? 32 : 0) + (w.cast_out ? 64 : 0));
    };
    std::string whole = std::to_string(std::min<Duration>(now - began, kCalm + seconds(1)).count());
    whole += over ? 'o' : ' ';
    whole += suspected ? 's' : ' ';
    for (const std::int32_t worker : members) {
      add(whole, of(worker));
      if (!accusers.contains(worker)) continue;
      for (const std::int32_t accuser : accusers.at(worker)) {
        whole += '<';
        whole += static_cast<char>('0' + (std::ranges::find(members, accuser) - members.begin()));
      }
    }
    std::vector<std::string> others;
    for (std::int32_t worker = 0; worker < job.workers; ++worker)
      if (!is_member(worker)) add(others.emplace_back(), of(worker));
    std::ranges::sort(others);
    whole += '|';
    for (const std::string& other : others) whole += other;
    return whole;
  }

  void say(std::int32_t worker, const Message& message) {
    take(coordinator.on_message(of(worker).peer, message, now));
  }

  void take(const std::vector<Action>& actions) {
    ASSERT_FALSE(coordinator.reason().empty() && !over) << "a decision without a reason";
    const Workers before = members;
    for (const auto& action : actions)
      if (const auto* closing = std::get_if<CloseAction>(&action)) take(*closing);
    for (const auto& action : actions)
      if (const auto* send = std::get_if<SendAction>(&action)) take(*send);
    check_left_out(before);
  }

  void take(const SendAction& send) {
    const auto to = std::ranges::find(all, send.to, &Worker::peer);
    ASSERT_NE(to, all.end());
    if (std::holds_alternative<Dismiss>(send.message)) {
      ASSERT_TRUE(over || to->drains) << "dismissed against its wish";
      to->dismissed = true;
    }
    if (std::holds_alternative<Stay>(send.message)) {
      ASSERT_TRUE(to->drains) << "told to stay, and did not wish to go";
      to->drains = false;
      to->status = Status::kHere;
    }
    const auto* welcome = std::get_if<Welcome>(&send.message);
    if (welcome == nullptr) return;
    if (welcome->generation > last.generation) enter(*welcome);
    // All are told the same, and of one number there is one generation.
    ASSERT_EQ(welcome->generation, last.generation);
    ASSERT_EQ(welcome->members, last.members) << "two generations of one number";
    ASSERT_EQ(welcome->planned, last.planned);
    const auto& me = welcome->members[static_cast<std::size_t>(to_int(welcome->rank))];
    ASSERT_EQ(of(me.info.worker).peer, send.to);
    ASSERT_EQ(me.rank, welcome->rank);
  }

  void take(const CloseAction& closing) {
    const auto to = std::ranges::find(all, closing.peer, &Worker::peer);
    ASSERT_NE(to, all.end());
    to->cast_out = true;
    ASSERT_FALSE(closing.why.message.empty());
  }

  bool is_lost(std::int32_t worker) const {
    const Worker& w = of(worker);
    return !is_connected(worker) || w.given_up || w.anew || w.cast_out;
  }

  // Of the present members more than half are among these, by number, or go as they were told to.
  bool has_majority(const std::set<std::int32_t>& next, std::int32_t going = -1) const {
    const auto accounted = std::ranges::count_if(members, [&](std::int32_t worker) {
      const bool goes = of(worker).status == Status::kDraining || worker == going;
      return next.contains(worker) || (goes && !is_lost(worker));
    });
    return !job.majority || members.empty() || 2 * accounted > std::ssize(members);
  }

  // Numbers ascend; a generation has enough members, one at least with the state, nobody who is
  // away, and a reason that names whom it has lost.
  void enter(const Welcome& welcome) {
    ASSERT_EQ(to_int(welcome.generation), to_int(last.generation) + 1);
    ASSERT_FALSE(over) << "a generation after the end";
    Workers next;
    for (const auto& member : welcome.members) next.push_back(member.info.worker);
    ASSERT_EQ(std::set(next.begin(), next.end()).size(), next.size());
    ASSERT_GE(next.size(), static_cast<std::size_t>(job.least)) << "a minority goes on";
    ASSERT_TRUE(has_majority({next.begin(), next.end()})) << "a minority of the members goes on";
    for (std::size_t rank = 0; job.keeps_ranks && rank < members.size(); ++rank)
      ASSERT_TRUE(next[rank] == members[rank] ||
                  (job.standbys > 0 && is_lost(members[rank]) && !is_member(next[rank])))
          << "rank " << rank << " has another's part";
    for (const std::int32_t worker : members) {
      if (!is_lost(worker)) continue;
      ASSERT_FALSE(welcome.planned) << "a step is to be finished with worker " << worker;
      ASSERT_NE(coordinator.reason().find(fmt::format("worker {} (", worker)), std::string::npos)
          << coordinator.reason();
    }
    check_succession(next);
    for (const std::int32_t worker : next) {
      ASSERT_TRUE(of(worker).status == Status::kHere || hands_over(worker, next))
          << "worker " << worker;
      ASSERT_FALSE(of(worker).given_up || of(worker).dismissed || of(worker).cast_out)
          << "worker " << worker;
    }
    for (std::int32_t worker = 0; worker < job.workers; ++worker)
      of(worker).newcomer = last.generation > Generation{0} &&
                            std::ranges::count(next, worker) > 0 &&
                            (!is_member(worker) || of(worker).anew);
    last = welcome;
    members = next;
    began = now;
    accusers.clear();
    for (Worker& worker : all) worker.anew = false;
    if (welcome.generation == Generation{1})
      for (const std::int32_t worker : next) of(worker).has_state = true;
  }

  // From those who have it, or from a checkpoint where all of them are gone.
  void hand_over_state() {
    const std::vector<std::int32_t> present = members;
    const bool there = std::ranges::any_of(
        present, [&](std::int32_t worker) { return of(worker).has_state && is_connected(worker); });
    const bool anew =
        std::ranges::none_of(present, [&](std::int32_t w) { return of(w).has_state; });
    if (!there && !anew) return;
    for (const std::int32_t worker : present) {
      Worker& it = of(worker);
      const bool gets = it.status == Status::kHere && !is_lost(worker) && !it.dismissed;
      if (!gets || std::exchange(it.has_state, true)) continue;
      say(worker, Whole{});
    }
  }

  // It is to go, and of `next` only those who are to go have the state.
  bool hands_over(std::int32_t worker, const Workers& next) const {
    return of(worker).status == Status::kDraining && of(worker).has_state &&
           std::ranges::none_of(next, [&](std::int32_t other) {
             return of(other).has_state && of(other).status == Status::kHere;
           });
  }

  // One that holds the state takes it from each generation to the next, unless all who do are lost.
  // Whoever of a generation is not in the next one is gone or wishes to go, and was not merely
  // outvoted; and where min_workers is a majority of the job's workers, those who go on are more
  // than all the others, whatever has become of them: so no two generations have nobody in common.
  void check_succession(const Workers& next) const {
    if (last.generation == Generation{0}) return;
    const auto goes_on = [&](std::int32_t worker) { return std::ranges::count(next, worker) > 0; };
    const auto has_state = [&](std::int32_t worker) {
      return of(worker).has_state && !is_lost(worker);
    };
    const auto hands_over = [&](std::int32_t worker) {
      return goes_on(worker) && has_state(worker);
    };
    ASSERT_TRUE(std::ranges::any_of(members, hands_over) || job.keeps_ranks ||
                std::ranges::none_of(members, has_state))
        << "nobody takes the state over";
    for (const std::int32_t worker : members)
      ASSERT_TRUE(goes_on(worker) || is_lost(worker) || of(worker).status != Status::kHere)
          << "worker " << worker << " is well and left behind";
    if (2 * job.least > job.workers) {
      ASSERT_GT(2 * next.size(), static_cast<std::size_t>(job.workers)) << "a minority goes on";
    }
  }

  // Of two groups never both go on: whoever is in the present generation no more and may still be
  // there has been told.
  void check_left_out(const Workers& before) const {
    for (const std::int32_t worker : before)
      ASSERT_TRUE(is_member(worker) || !is_connected(worker) || of(worker).dismissed ||
                  of(worker).cast_out)
          << "worker " << worker << " may go on by itself";
  }

  std::set<std::int32_t> those_well() const {
    std::set<std::int32_t> well;
    for (std::int32_t worker = 0; worker < job.workers; ++worker) {
      const Worker& w = of(worker);
      if (w.status == Status::kHere && !w.given_up && !w.cast_out && !w.dismissed)
        well.insert(worker);
    }
    return well;
  }

  // And those who are to go and alone have the state.
  std::set<std::int32_t> those_to_go_on() const {
    std::set<std::int32_t> all_well = those_well();
    const bool enough = all_well.size() >= static_cast<std::size_t>(job.least);
    const bool state = std::ranges::any_of(all_well, [&](auto w) { return of(w).has_state; });
    if (!enough || state || job.keeps_ranks) return all_well;
    for (std::int32_t worker = 0; worker < job.workers; ++worker) {
      const Worker& w = of(worker);
      if (is_member(worker) && w.status == Status::kDraining && w.has_state && !w.given_up &&
          !w.cast_out && !w.dismissed)
        all_well.insert(worker);
    }
    return all_well;
  }

  bool can_go_on(const std::set<std::int32_t>& workers) const {
    const bool survivors =
        std::ranges::any_of(workers, [&](auto w) { return is_member(w) && !of(w).anew; });
    return (survivors || are_all_lost()) && workers.size() >= static_cast<std::size_t>(job.least) &&
           std::ranges::none_of(members, [&](auto w) {  // nobody takes its rank while it lives
             return job.keeps_ranks && of(w).status == Status::kDraining && !is_lost(w);
           });
  }

  // Those who are well are the generation, where they are enough and one of them has the state, or
  // nobody is left who could; else there is none, and the reason says so.
  void check_outcome() const {
    if (over) return;
    const std::set<std::int32_t> well = those_to_go_on();
    if (can_go_on(well) && has_majority(well)) {
      const std::set<std::int32_t> present(members.begin(), members.end());
      const bool as_many = job.standbys > 0 || present.size() == well.size();
      ASSERT_TRUE(as_many && std::ranges::includes(well, present)) << "those who are well go on";
      return;
    }
    const std::string& reason = coordinator.reason();
    const auto says = [&](const char* text) { return reason.find(text) != std::string::npos; };
    const bool is_right = can_go_on(well) ? says("no majority of the")
                                          : says("of at least") || says("left to hand over the");
    const bool all_are_there = std::ranges::none_of(members, [&](auto w) { return is_lost(w); });
    ASSERT_TRUE(is_right || all_are_there) << reason;
  }

  bool are_all_lost() const {
    return std::ranges::all_of(members, [&](std::int32_t worker) { return is_lost(worker); });
  }

  bool is_possible(Event event, std::int32_t worker) const {
    const Status status = of(worker).status;
    const bool there = status == Status::kHere || status == Status::kDraining;
    switch (event) {
      case Event::kBreak:
        return is_connected(worker);
      case Event::kFallSilent:
      case Event::kLeave:
        return there;
      case Event::kQuarantine:
        return there && is_member(worker) && !of(worker).anew;
      case Event::kWake:
        return status == Status::kSilent;
      case Event::kDrain:
        return status == Status::kHere;
      case Event::kResign:
        return status == Status::kHere && is_member(worker) && !of(worker).anew &&
               !of(worker).drains;
      case Event::kComeAgain:
        return !is_connected(worker);
      case Event::kSuspect:
        return status == Status::kHere && is_member(worker) && members.size() > 1 &&
               !of(worker).given_up;
      case Event::kQuiet:
        return worker == 0;
    }
    return false;
  }

  // Whoever is told to go may be so before newcomers have the state; else they have it by then.
  void happen(Event event, std::int32_t worker) {
    const bool goes =
        event == Event::kDrain || event == Event::kResign || event == Event::kComeAgain;
    if (!goes && !over) hand_over_state();
    if (!is_possible(event, worker)) return;  // by which others may have gone
    Worker& it = of(worker);
    switch (event) {
      case Event::kBreak:
        it.status = Status::kGone;
        it.has_state = false;
        return take(coordinator.on_closed(it.peer, {}, now));
      case Event::kFallSilent:
        it.status = Status::kSilent;
        it.given_up = true;
        return pass(seconds(11));
      case Event::kWake:
        it.status = Status::kHere;
        say(worker, Heartbeat{});
        return pass(seconds(1));
      case Event::kDrain:
        return drain(worker);
      case Event::kResign:
        return resign(worker);
      case Event::kLeave:
        over = over || (is_member(worker) && !it.anew && !it.cast_out);
        return end(worker, Leave{});
      case Event::kQuarantine:
        return end(worker, Quarantine{fail(ErrorCode::kCorrupt, "wrong bits")});
      case Event::kComeAgain:
        it = Worker{.peer = ++last_peer, .anew = is_member(worker)};
        say(worker, Join{{worker, "h", "b", 2, {}}});
        return pass(seconds(1));
      case Event::kSuspect:
        return suspect(worker);
      case Event::kQuiet:
        return pass(kCalm + seconds(1));
    }
  }

  // Whoever is away comes again. Paths that are taken for one must go on as one: from each
  // situation by the first of them, and by some of the others.
  void mend() {
    for (std::int32_t worker = 0; worker < job.workers; ++worker) {
      if (is_possible(Event::kBreak, worker) && of(worker).status != Status::kHere)
        happen(Event::kBreak, worker);
      if (is_possible(Event::kComeAgain, worker)) happen(Event::kComeAgain, worker);
    }
    check_outcome();
  }

  // Nobody whom no generation waits for waits for one.
  void drain(std::int32_t worker) {
    const bool outside = !is_member(worker) || of(worker).anew;
    wish_to_go(worker, Drain{});
    ASSERT_TRUE(!outside || of(worker).dismissed) << "worker " << worker << " waits in vain";
  }

  // It goes where the others can go on without it, and else hears that it stays.
  void resign(std::int32_t worker) {
    std::set<std::int32_t> others = those_well();
    others.erase(worker);
    // Perhaps once they have the state.
    const bool may_go = !over && !job.keeps_ranks &&
                        others.size() >= static_cast<std::size_t>(job.least) &&
                        has_majority(others, worker) && (can_go_on(others) || of(worker).has_state);
    wish_to_go(worker, Drain{.can_stay = true});
    ASSERT_EQ(of(worker).drains, may_go) << "worker " << worker;
  }

  void wish_to_go(std::int32_t worker, const Drain& wish) {
    of(worker).status = Status::kDraining;
    of(worker).drains = true;
    say(worker, wish);
  }

  void end(std::int32_t worker, const Message& last_word) {
    of(worker).status = Status::kLeft;
    of(worker).has_state = false;
    say(worker, last_word);
    take(coordinator.on_closed(of(worker).peer, {}, now));
  }

  // Of the one after it. Twice means that somebody is sent away, who may also be the accuser.
  void suspect(std::int32_t worker) {
    const auto at = std::ranges::find(members, worker) - members.begin();
    const auto accused = (static_cast<std::size_t>(at) + 1) % members.size();
    if (is_lost(members[accused])) {  // that it does not answer is known
      say(worker, Suspect{last.generation, fail(ErrorCode::kTimeout, "", Rank(accused))});
      return pass(seconds(2));
    }
    if (now - began > kCalm) suspected = false;
    accusers[members[accused]].insert(worker);
    if (suspected) of(most_accused()).given_up = true;
    say(worker, Suspect{last.generation, fail(ErrorCode::kTimeout, "", Rank(accused))});
    pass(seconds(1));
    suspected = true;
    pass(seconds(1));
  }

  // Of equals the last of the members.
  std::int32_t most_accused() const {
    std::int32_t most = -1;
    for (const std::int32_t worker : members)
      if (accusers.contains(worker) &&
          (most < 0 || accusers.at(worker).size() >= accusers.at(most).size()))
        most = worker;
    return most;
  }

  void pass(Duration time) {
    for (const TimePoint end = now + time; now < end;) {
      now = std::min(end, coordinator.next_clock(now));
      for (std::int32_t worker = 0; worker < job.workers; ++worker) {
        const Status status = of(worker).status;
        if (status == Status::kHere || status == Status::kDraining) say(worker, Heartbeat{});
      }
      take(coordinator.on_clock(now));
    }
  }
};

}  // namespace muster::cluster::paths
