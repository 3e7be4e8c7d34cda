#pragma once
// The coordinator: knows who has joined, publishes generations, notices who is gone, keeps the
// store. CoordinatorState is a state machine fed with events and asked for actions, without time,
// threads or sockets of its own; Coordinator puts it on a Loop and a Network.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/cluster/membership.h"
#include "muster/cluster/messages.h"
#include "muster/cluster/shared_values.h"
#include "muster/cluster/suspicions.h"
#include "muster/net/network.h"

namespace muster::cluster {

struct CoordinatorOptions {
  MembershipPolicy policy;
  Duration join_timeout = std::chrono::seconds(60);  // for the first generation
  std::int32_t own = 1;  // numbers below are those of workers that the launcher starts
  Enlisted enlistment;   // what a host that offers a worker is told, but for the number
  std::string version;   // Enlist::version of those that may offer one
  // Where workers that another launcher has started learn of this one; without a port: none does.
  net::Address meeting;
  // See Suspicions. Longer than members may take to connect: until then nobody knows whether a
  // generation works.
  Duration calm = std::chrono::seconds(30);
  // How long a member may wait for its data, as it tells, while others miss it: they try again with
  // it until then, where anybody else would be given up.
  Duration data_patience = std::chrono::seconds(60);
};

// What the coordinator tells whoever runs it (the launcher). Called on the loop's thread.
struct CoordinatorEvents {
  std::function<void(const WorkerInfo& worker)> on_join;
  std::function<void(const Welcome& generation)> on_generation;  // rank: kNoRank
  std::function<void(std::int32_t worker, const Progress&)> on_progress;
  std::function<void(std::int32_t worker, const Bytes& content)> on_report;
  std::function<void(std::int32_t worker, const Bytes& content)> on_dumped;
  // A worker told of its own failure; its error.peer: the worker it accuses.
  std::function<void(std::int32_t worker, const Failure&)> on_failure;
  // Connection lost without Leave (kPeerLost), silent for too long (kTimeout), out of the others'
  // reach (kUnavailable), or at fault by its own account (kCorrupt).
  std::function<void(std::int32_t worker, const Error&)> on_lost;
  // A member waited for another one until its time was up: no death explains that. Before anybody
  // is given up, and once for each that complains.
  std::function<void()> on_no_answer;
  // A newcomer that is not let in yet, since it and `other` do not reach each other. Told once.
  std::function<void(const WorkerInfo& worker, const WorkerInfo& other, const std::string& why)>
      on_unreached;
  // A worker of another version than one that is here was refused.
  std::function<void(const Error& why)> on_other_version;
  std::function<void(std::int32_t worker, const Leave&)> on_leave;
  // The process of a worker of another host has ended: its host says how.
  std::function<void(std::int32_t worker, const Ended&)> on_ended;
  // A worker was told to go; `stays`: there would be too few without it.
  std::function<void(std::int32_t worker, Departure)> on_drain;
  // One wished to go for the others' sake, and stays: there would be too few without it.
  std::function<void(std::int32_t worker)> on_stay;
  // No generation came about in time: names who is missing.
  std::function<void(const Error&)> on_join_timeout;
};

struct SendAction {
  PeerId to;
  Message message;
};
struct CloseAction {
  PeerId peer;
  Error why;
};
struct TellAction {  // calls one of CoordinatorEvents
  std::function<void(const CoordinatorEvents&)> tell;
};
using Action = std::variant<SendAction, CloseAction, TellAction>;

// One thread at a time. Every event returns what to do, in order.
class CoordinatorState {
 public:
  CoordinatorState(CoordinatorOptions options, TimePoint now, Logger log);

  std::vector<Action> on_message(PeerId peer, const Message& message, TimePoint now);
  std::vector<Action> on_closed(PeerId peer, const Error& why, TimePoint now);
  std::vector<Action> on_clock(TimePoint now);
  std::vector<Action> broadcast(const Message& message);
  std::vector<Action> let_go(std::int32_t worker);  // asks it to drain
  // From now on the first generation waits for so many, and for the join time-out once more.
  std::vector<Action> expect(std::int32_t workers, TimePoint now);

  // When on_clock is due, after `now`; TimePoint::max(): never.
  TimePoint next_clock(TimePoint now) const noexcept;
  Generation generation() const noexcept { return generation_; }
  const std::string& reason() const noexcept { return reason_; }  // of the last decision

 private:
  struct Worker {
    PeerId peer = 0;
    Candidate candidate;
    std::string version;
    Progress progress;
    TimePoint at_it_since{};            // since when its step and phase are these
    std::set<PeerId> reached;           // by it, and it by them
    std::set<PeerId> asked;             // to reach these now
    std::set<std::int32_t> told_about;  // whom it did not reach
  };

  struct Formed {
    Generation generation{0};
    std::vector<std::int32_t> members;  // by rank
  };

  void join(PeerId peer, const Join& message, TimePoint now);
  bool is_of_one_version(PeerId peer, const Join& message);
  void enlist(PeerId peer, const Enlist& message);
  void note_end(PeerId peer, const Ended& message);
  std::optional<std::int32_t> free_number() const;
  bool distrusts(const std::string& host, const std::string& boot_id) const;
  void refuse(PeerId peer, std::string why);
  std::string why_twice(const Worker* known) const;
  void suspect(const Worker& worker, const Suspect& message, TimePoint now);
  void settle_suspicions(TimePoint now);
  bool only_waits_for_data(const Worker& worker, TimePoint now) const;
  void ask_to_reach(PeerId peer, Worker& worker, TimePoint now);
  void ask_newcomers_to_reach(TimePoint now);
  void note_reached(PeerId peer, Worker& worker, const Reached& message, TimePoint now);
  void note_unreached(Worker& worker, const Unreached& message);
  TimePoint first_silence(TimePoint after) const noexcept;
  TimePoint next_look(Candidate candidate, TimePoint after) const noexcept;
  void note_needed_workers(TimePoint now);
  void expect_heartbeat(const Worker& worker) noexcept;
  void wake(TimePoint now);
  void decide(TimePoint now);
  void publish(const std::vector<std::int32_t>& members, bool planned, TimePoint now);
  void drain(PeerId peer, Worker& worker, const Drain& message, TimePoint now);
  void end();
  void turn_away(PeerId peer);  // it comes after the end
  void exclude(Worker& worker);
  void on_member_message(PeerId peer, Worker& worker, const Message& message, TimePoint now);
  Failure by_worker(Failure failure) const;
  void lose(Worker& worker, Error why);
  bool is_gone(std::int32_t member) const;
  void tell(std::function<void(const CoordinatorEvents&)> what);
  std::string missing_workers() const;
  Worker* find_worker(std::int32_t worker);
  std::vector<Action> take_actions();

  CoordinatorOptions options_;
  TimePoint started_;
  TimePoint awake_;  // when it was last called
  Logger log_;
  std::map<PeerId, Worker> workers_;
  std::unordered_map<std::int32_t, PeerId> peers_;  // by number: of each there is one in workers_
  // Not after anybody's patience ends. Exact after each on_clock; so
  // a heartbeat costs no look at all workers.
  TimePoint silence_due_ = TimePoint::max();
  std::map<PeerId, std::int32_t> enlisted_;  // numbers that are promised
  // Hosts of workers that came with wrong bits: name and boot id.
  std::set<std::pair<std::string, std::string>> distrusted_;
  Suspicions suspicions_;
  std::map<std::int32_t, Error> complaints_;  // the last one about each, in this generation
  std::optional<TimePoint> last_join_;
  std::vector<std::int32_t> current_;
  std::vector<Formed> formed_;           // the last generations, the present one included
  std::vector<std::int32_t> replaced_;   // see MembershipView
  std::vector<std::int32_t> newcomers_;  // of the present generation, if it is not the first
  Generation generation_{0};
  std::optional<Stop> stop_;  // all were told to: newcomers are as well
  bool again_ = false;        // the present generation does not work: another, though of the same
  bool gave_up_ = false;
  bool ending_ = false;  // somebody has left in good order: the training is over
  std::string reason_;
  std::vector<std::int32_t> kept_;  // see MembershipDecision
  SharedValues values_;
  std::vector<Action> actions_;
};

// On a network. Thread-safe; the destructor closes all connections. Not destroyed on the loop's
// thread.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  virtual const net::Address& address() const noexcept = 0;  // where workers join
  virtual void broadcast(const Message& message) = 0;
  virtual void let_go(std::int32_t worker) = 0;   // see CoordinatorState
  virtual void expect(std::int32_t workers) = 0;  // likewise
};

// Listens at `address` (port 0: any). `network` outlives the coordinator.
Result<std::unique_ptr<Coordinator>> create_coordinator(net::Network& network,
                                                        const net::Address& address,
                                                        CoordinatorOptions options,
                                                        CoordinatorEvents events, Logger log);

}  // namespace muster::cluster
