// Every path of up to six events through a job of five workers, on the coordinator's state machine;
// paths that lead to the same situation are followed once.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "muster/cluster/coordinator.h"

namespace muster::cluster {
namespace {

using std::chrono::seconds;
using Workers = std::vector<std::int32_t>;

constexpr std::int32_t kWorkers = 5;
constexpr int kEvents = 6;

enum class Status : std::uint8_t { kHere, kSilent, kDraining, kLeft, kGone };
enum class Event : std::uint8_t { kBreak, kFallSilent, kDrain, kLeave, kComeAgain, kSuspect };
constexpr Event kAll[] = {Event::kBreak, Event::kFallSilent, Event::kDrain,
                          Event::kLeave, Event::kComeAgain,  Event::kSuspect};

// The world around the coordinator, as the workers see it.
struct World {
  CoordinatorState coordinator;
  TimePoint now{seconds(100)};
  std::vector<Status> status = std::vector<Status>(kWorkers, Status::kHere);
  std::vector<PeerId> peer;  // of each worker's connection
  std::vector<bool> has_state = std::vector<bool>(kWorkers, false);
  PeerId last_peer = 0;
  Generation generation{0};
  Workers members;
  bool planned = false;
  bool over = false;            // somebody has finished
  std::set<std::int32_t> anew;  // members that have come again since

  explicit World(std::int32_t least)
      : coordinator(options(least), TimePoint(seconds(100)), create_null_logger()) {
    for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
      peer.push_back(++last_peer);
      say(worker, Join{{worker, "h", "b", 1, {}}});
    }
  }

  static CoordinatorOptions options(std::int32_t least) {
    CoordinatorOptions options;
    options.policy.start_workers = options.policy.max_workers = kWorkers;
    options.policy.min_workers = least;
    options.policy.heartbeat_timeout = seconds(10);
    return options;
  }

  // What decides how it goes on, but for the workers' names.
  std::string situation() const {
    const auto of = [this](std::int32_t worker) {
      const auto at = static_cast<std::size_t>(worker);
      return std::to_string(static_cast<int>(status[at])) + (anew.contains(worker) ? "+" : "") +
             (has_state[at] ? "s " : " ");
    };
    std::string text = over ? "over: " : "";
    for (const std::int32_t worker : members) text += of(worker);
    std::multiset<std::string> others;
    for (std::int32_t worker = 0; worker < kWorkers; ++worker)
      if (std::ranges::count(members, worker) == 0) others.insert(of(worker));
    text += "| ";
    for (const std::string& other : others) text += other;
    return text;
  }

  void say(std::int32_t worker, const Message& message) {
    take(coordinator.on_message(peer[static_cast<std::size_t>(worker)], message, now));
  }

  void take(const std::vector<Action>& actions) {
    for (const auto& action : actions) {
      const auto* send = std::get_if<SendAction>(&action);
      if (send == nullptr) continue;
      if (const auto* welcome = std::get_if<Welcome>(&send->message)) {
        if (welcome->generation > generation) enter(*welcome);
        check(*welcome, send->to);
      }
    }
  }

  // Never two of one number, never without one who has the state, never with one who is away.
  void enter(const Welcome& welcome) {
    ASSERT_EQ(to_int(welcome.generation), to_int(generation) + 1);
    ASSERT_FALSE(over) << "a generation after the end";
    Workers next;
    for (const auto& member : welcome.members) next.push_back(member.info.worker);
    ASSERT_EQ(std::set(next.begin(), next.end()).size(), next.size());
    const bool lost = std::ranges::any_of(members, [&](std::int32_t worker) {
      const Status each = status[static_cast<std::size_t>(worker)];
      return each == Status::kGone || each == Status::kSilent || anew.contains(worker);
    });
    ASSERT_FALSE(welcome.planned && lost) << "a step is to be finished with the dead";
    const auto has = [&](std::int32_t worker) {
      return has_state[static_cast<std::size_t>(worker)];
    };
    ASSERT_TRUE(generation == Generation{0} || std::ranges::any_of(next, has))
        << "nobody has the state";
    for (const std::int32_t worker : next)
      ASSERT_EQ(status[static_cast<std::size_t>(worker)], Status::kHere) << "worker " << worker;
    generation = welcome.generation;
    members = next;
    planned = welcome.planned;
    anew.clear();
    for (const std::int32_t worker : next) has_state[static_cast<std::size_t>(worker)] = true;
  }

  // All are told the same.
  void check(const Welcome& welcome, PeerId to) {
    ASSERT_EQ(welcome.generation, generation);
    ASSERT_EQ(welcome.planned, planned);
    ASSERT_EQ(welcome.members.size(), members.size());
    const auto worker = welcome.members[static_cast<std::size_t>(to_int(welcome.rank))].info.worker;
    ASSERT_EQ(peer[static_cast<std::size_t>(worker)], to);
    ASSERT_EQ(members[static_cast<std::size_t>(to_int(welcome.rank))], worker);
  }

  bool is_possible(Event event, std::int32_t worker) const {
    const Status each = status[static_cast<std::size_t>(worker)];
    const bool there = each == Status::kHere || each == Status::kDraining;
    switch (event) {
      case Event::kBreak:
        return each != Status::kGone && each != Status::kLeft;
      case Event::kFallSilent:
      case Event::kLeave:
        return there;
      case Event::kDrain:
        return each == Status::kHere;
      case Event::kComeAgain:
        return each == Status::kGone || each == Status::kLeft;
      case Event::kSuspect:
        return each == Status::kHere && std::ranges::count(members, worker) == 1 &&
               members.size() > 1;
    }
    return false;
  }

  void happen(Event event, std::int32_t worker) {
    Status& each = status[static_cast<std::size_t>(worker)];
    switch (event) {
      case Event::kBreak:
        each = Status::kGone;
        has_state[static_cast<std::size_t>(worker)] = false;
        return take(coordinator.on_closed(peer[static_cast<std::size_t>(worker)], {}, now));
      case Event::kFallSilent:
        each = Status::kSilent;
        return pass(seconds(11));
      case Event::kDrain:
        each = Status::kDraining;
        return say(worker, Drain{});
      case Event::kLeave:
        over = over || std::ranges::count(members, worker) == 1;
        each = Status::kLeft;
        has_state[static_cast<std::size_t>(worker)] = false;
        say(worker, Leave{});
        return take(coordinator.on_closed(peer[static_cast<std::size_t>(worker)], {}, now));
      case Event::kComeAgain:
        peer[static_cast<std::size_t>(worker)] = ++last_peer;
        each = Status::kHere;
        if (std::ranges::count(members, worker) == 1) anew.insert(worker);
        say(worker, Join{{worker, "h", "b", 2, {}}});
        return pass(seconds(1));
      case Event::kSuspect: {
        const auto at = std::ranges::find(members, worker) - members.begin();
        const auto accused = (static_cast<std::size_t>(at) + 1) % members.size();
        say(worker, Suspect{generation, fail(ErrorCode::kTimeout, "", Rank(accused))});
        // Twice means that somebody is sent away, who may also be the accuser.
        pass(seconds(1));
        return pass(seconds(1));
      }
    }
  }

  void pass(Duration time) {
    now += time;
    for (std::int32_t worker = 0; worker < kWorkers; ++worker) {
      const Status each = status[static_cast<std::size_t>(worker)];
      if (each == Status::kHere || each == Status::kDraining) say(worker, Heartbeat{});
    }
    take(coordinator.on_clock(now));
  }
};

class MembershipPaths : public ::testing::TestWithParam<std::int32_t> {};

TEST_P(MembershipPaths, HoldTheRulesAtEveryTurn) {
  std::vector<World> edge{World(GetParam())};
  ASSERT_EQ(edge[0].generation, Generation{1});
  std::set<std::string> seen{edge[0].situation()};
  for (int depth = 0; depth < kEvents && !HasFatalFailure(); ++depth) {
    std::vector<World> next;
    for (const World& world : edge) {
      for (const Event event : kAll) {
        for (std::int32_t worker = 0; worker < kWorkers && !HasFatalFailure(); ++worker) {
          if (!world.is_possible(event, worker)) continue;
          SCOPED_TRACE(world.situation() + ": event " + std::to_string(static_cast<int>(event)) +
                       " of worker " + std::to_string(worker));
          World after = world;
          after.happen(event, worker);
          if (seen.insert(after.situation()).second) next.push_back(std::move(after));
        }
      }
    }
    edge = std::move(next);
  }
  RecordProperty("situations", static_cast<int>(seen.size()));
  EXPECT_GT(seen.size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(Least, MembershipPaths, ::testing::Values(1, 2, 3, 5));

}  // namespace
}  // namespace muster::cluster
