#pragma once
// The worker's side of membership: join, be heard of, tell and be told. One Member per rank; two in
// one process work.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/log.h"
#include "muster/cluster/messages.h"
#include "muster/cluster/store.h"
#include "muster/net/network.h"

namespace muster::cluster {

struct MemberOptions {
  net::Address coordinator;
  WorkerInfo info;
  std::string host = {};  // this host's address as other workers reach it; empty: none try (door.h)
  Duration heartbeat_interval = std::chrono::milliseconds(200);
  // Where the worker is, told with every heartbeat and with its failure. Called on any thread.
  std::function<Progress()> where = {};
  bool follows_clock = false;               // asks for the coordinator's time with every heartbeat
  std::shared_ptr<MemberLists> lists = {};  // where many members live in one process
  std::string version = {};                 // see Join
};

// One generation as agreed: who I am in it, and who the others are.
struct Membership {
  Generation generation{0};
  Rank rank{0};
  MemberList members;    // by rank; empty: this worker is dismissed
  bool planned = false;  // see Welcome
  std::int32_t size() const noexcept { return static_cast<std::int32_t>(members.size()); }
};

// Thread-safe. Callbacks run on the loop's thread and must not block; one that is set after its
// event has happened is called at once.
class Member {
 public:
  // Leaves nothing running. Without leave() or fail() before, the coordinator sees a lost worker.
  virtual ~Member() = default;

  // The newest generation that this worker belongs to.
  virtual Membership membership() const = 0;
  virtual Generation generation() const = 0;  // its number alone; cheap
  // Waits for one newer than `than`. kTimeout, or why the job is lost.
  virtual Result<Membership> wait_newer(Generation than, Deadline deadline) = 0;
  // The job's store for as long as `generation` is the newest; afterwards it answers kStale at
  // once, also to whoever waits.
  virtual std::shared_ptr<KvStore> store(Generation generation) = 0;

  virtual void report(Bytes content) = 0;
  // What to add to a time of this host's clock to get the coordinator's; 0 until it is known. See
  // MemberOptions::follows_clock.
  virtual Duration clock_offset() const = 0;

  virtual std::optional<StopReason> stop_requested() const noexcept = 0;
  virtual void on_stop(std::function<void(StopReason)> then) = 0;
  // Its launcher wants fewer workers: it is this one that is to drain().
  virtual void on_let_go(std::function<void()> then) = 0;
  // Whenever a newer generation has begun.
  virtual void on_generation(std::function<void(const Membership&)> then) = 0;
  // Asked where it is, with or without the stacks of its threads, be it before this call
  // and in this generation; answer_dump() answers.
  virtual void on_dump(std::function<void(bool stacks)> then) = 0;
  virtual void answer_dump(Bytes content) = 0;
  // The coordinator is gone (kPeerLost), or told that the job has failed (error.peer: the culprit).
  virtual void on_lost(std::function<void(const Error&)> then) = 0;

  // Tells of this worker's own failure in `generation` (error.peer: a rank of that one); returns
  // when it was handed over, at the latest at `deadline`.
  virtual void fail(Generation generation, const Error& error, Concerns concerns,
                    Deadline deadline) noexcept = 0;
  void fail(const Error& error, Concerns concerns, Deadline deadline) noexcept {
    fail(generation(), error, concerns, deadline);  // in the newest one
  }
  // Likewise of a fault that is this worker's alone: the others can go on without it.
  virtual void quarantine(const Error& why, Deadline deadline) noexcept = 0;
  // Tells that this worker cannot work with another of `generation` (why.peer: its rank): unless
  // that one turns out to be dead, the coordinator has all try again, or go on without one.
  virtual void suspect(Generation generation, const Error& why) = 0;
  // This worker has the state, and could hand it over. Who comes to a training under way says so
  // once, before which the last of those who have it are not let go.
  virtual void tell_whole() = 0;
  // Asks to be let go, or not to be let in: a generation without this worker follows, which
  // wait_newer() shows by its lack of members.
  virtual void drain() = 0;
  // Likewise, for the others' sake: where too few would be left without this worker, it stays.
  virtual void resign() = 0;
  virtual bool resigned() const noexcept = 0;  // it asked to, and has not heard that it has to stay
  // Says a regular good-bye, likewise, and for which signal to this worker all have stopped (0:
  // none). Afterwards losing the connection is no event.
  virtual void leave(int signal, Deadline deadline) noexcept = 0;
};

// Connects and asks to be let in; wait_newer(Generation{0}) shows that it is. `network` outlives
// the member. kUnavailable: no coordinator there.
Result<std::unique_ptr<Member>> ask_to_join(net::Network& network, MemberOptions options,
                                            Deadline deadline, Logger log);

// The same, and waits until the generation is published. kTimeout: the others did not come.
Result<std::unique_ptr<Member>> join(net::Network& network, MemberOptions options,
                                     Deadline deadline, Logger log);

}  // namespace muster::cluster
