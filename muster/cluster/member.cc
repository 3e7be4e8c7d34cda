#include "muster/cluster/member.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "muster/base/awaited.h"
#include "muster/cluster/clock_offset.h"
#include "muster/cluster/control_channel.h"
#include "muster/cluster/door.h"
#include "muster/cluster/remote_store.h"

namespace muster::cluster {
namespace {

using std::chrono::milliseconds;

// How long one try to reach another worker may take, and how long until the next one.
constexpr Duration kKnock = std::chrono::seconds(5);
constexpr Duration kKnockAgain = std::chrono::seconds(1);

Rank sender_of(const Membership& membership) {
  return membership.members.empty() ? kNoRank : membership.rank;
}

// An event that happens once, or has happened: whoever asks later is told at once.
template <class... Args>
class Latched {
 public:
  void set(Args... args) {
    std::unique_lock lock(mutex_);
    if (happened_) return;
    happened_.emplace(std::move(args)...);
    const auto then = then_;
    lock.unlock();
    if (then) std::apply(then, *happened_);
  }
  void on(const std::function<void(const Args&...)>& then) {
    std::unique_lock lock(mutex_);
    then_ = then;
    if (!happened_) return;
    lock.unlock();
    std::apply(then, *happened_);
  }

 private:
  std::mutex mutex_;
  std::function<void(const Args&...)> then_;
  std::optional<std::tuple<Args...>> happened_;
};

// The part of a Member that the loop refers to, weakly.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(net::Loop& loop, MemberOptions options, Logger log)
      : loop_(loop),
        options_(std::move(options)),
        log_(std::move(log)),
        store_(std::make_shared<RemoteStore>(
            loop.clock(), [this](const StoreRequest& request) { send(request); })) {}

  // ---- any thread

  Status open(net::Network& network) {
    if (options_.host.empty()) return ok();
    MUSTER_ASSIGN(door_, open_door(network, options_.host));
    options_.info.door = to_string(door_->address());
    return ok();
  }

  // `took`: to connect.
  void begin(std::shared_ptr<net::Connection> connection, Duration took) {
    connection_ = std::move(connection);
    connection_->start(
        create_control_receiver({
                                    [weak = weak_from_this()](const Message& message) {
                                      if (const auto self = weak.lock()) self->on_message(message);
                                    },
                                    [weak = weak_from_this()](const Error& why) {
                                      if (const auto self = weak.lock())
                                        self->connection_->close(why);
                                    },
                                    [weak = weak_from_this()](const Error& why) {
                                      if (const auto self = weak.lock()) self->on_closed(why);
                                    },
                                },
                                options_.lists));
    send(Join{options_.info, options_.version, WallReading{loop_.clock().wall(), took}});
  }

  Result<Membership> wait_newer(Generation than, Deadline deadline) {
    std::unique_lock lock(mutex_);
    while (membership_.generation <= than) {
      if (lost_error_) return *lost_error_;
      if (deadline.passed(loop_.clock())) return no_generation(than);
      loop_.clock().wait_until(lock, changed_, deadline.at());
    }
    return membership_;
  }

  Membership membership_now() {
    const std::lock_guard lock(mutex_);
    return membership_;
  }

  Generation generation_now() {
    const std::lock_guard lock(mutex_);
    return membership_.generation;
  }

  void send(const Message& message) {
    if (connection_) send_message(*connection_, message, sender_of(membership_now()));
  }

  void resign() {
    resigned_ = true;
    send(Drain{.can_stay = true});
  }
  bool resigned() const noexcept { return resigned_; }

  Progress progress_now() const { return options_.where ? options_.where() : Progress{}; }

  // Hands `message` over and waits until it is with the operating system.
  void send_last(const Message& message, Deadline deadline) {
    leaving_ = true;
    Awaited<bool> handed_over;
    auto payload = std::make_shared<Bytes>(encode(message));
    net::FrameHeader header;
    header.kind = net::kControlFrame;
    header.sender = sender_of(membership_now());
    connection_->send(header, {*payload},
                      [giver = handed_over.giver(), payload](const Status&) { giver->give(true); });
    connection_->finish(deadline);
    handed_over.wait(loop_.clock(), deadline);
    std::unique_lock lock(mutex_);
    while (!closed_ && !deadline.passed(loop_.clock()))
      loop_.clock().wait_until(lock, changed_, deadline.at());
  }

  void close() {
    if (connection_)
      connection_->close(fail(ErrorCode::kCancelled, "[cluster/member] the member has ended"));
    store_->end(fail(ErrorCode::kCancelled, "[cluster/store] the member has ended"));
  }

  Duration clock_offset() {
    const std::lock_guard lock(mutex_);
    return clock_offset_.value().value_or(Duration{0});
  }

  std::shared_ptr<KvStore> store(Generation generation) { return store_->of(generation); }
  Latched<StopReason>& stop() noexcept { return stop_; }
  Latched<>& let_go() noexcept { return let_go_; }
  Latched<Error>& lost() noexcept { return lost_; }
  void on_dump(std::function<void(bool)> then) {
    std::unique_lock lock(mutex_);
    on_dump_ = std::move(then);
    const auto missed = std::exchange(missed_dump_, {});
    lock.unlock();
    if (missed)
      loop_.post([weak = weak_from_this(), stacks = *missed] {
        if (const auto self = weak.lock()) self->dump(stacks);
      });
  }
  void on_generation(std::function<void(const Membership&)> then) {
    const std::lock_guard lock(mutex_);
    on_generation_ = std::move(then);
  }
  std::optional<StopReason> stop_requested() const noexcept {
    const int reason = stop_reason_.load();
    return reason < 0 ? std::nullopt : std::optional(static_cast<StopReason>(reason));
  }

  // ---- the loop's thread

  void beat() {
    if (leaving_) return;
    send(Heartbeat{progress_now()});
    if (options_.follows_clock) send(AskTime{loop_.clock().now()});
    timer_ =
        loop_.call_at(loop_.clock().now() + options_.heartbeat_interval, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->beat();
        });
  }

 private:
  void on_message(const Message& message) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      enter({welcome->generation, welcome->rank, welcome->members, welcome->planned});
    } else if (const auto* dismissal = std::get_if<Dismiss>(&message)) {
      enter({dismissal->generation, kNoRank, {}, true});
    } else if (std::holds_alternative<Stay>(message)) {
      resigned_ = false;
    } else if (const auto* request = std::get_if<Reach>(&message)) {
      reach(*request);
    } else if (const auto* reply = std::get_if<StoreReply>(&message)) {
      store_->on_reply(*reply);
    } else if (const auto* stopping = std::get_if<Stop>(&message)) {
      stop_reason_ = static_cast<int>(stopping->reason);
      stop_.set(stopping->reason);
    } else if (std::holds_alternative<Drain>(message)) {
      let_go_.set();
    } else if (const auto* failure = std::get_if<Failure>(&message)) {
      lose(failure->error);
    } else if (const auto* asked = std::get_if<Dump>(&message)) {
      dump(asked->stacks);
    } else if (const auto* time = std::get_if<TellTime>(&message)) {
      const std::lock_guard lock(mutex_);
      clock_offset_.note(time->asked, time->told, loop_.clock().now());
    }
  }

  void enter(const Membership& membership) {
    std::unique_lock lock(mutex_);
    if (membership.generation <= membership_.generation) return;
    membership_ = membership;
    missed_dump_.reset();  // who asked has been told without it
    to_reach_.clear();
    again_.clear();
    changed_.notify_all();
    const auto then = on_generation_;
    lock.unlock();
    store_->on_generation(membership.generation);
    if (then) then(membership);
  }

  Error no_generation(Generation than) const {  // mutex_ is held
    if (!unreached_.empty()) return fail(ErrorCode::kTimeout, unreached_);
    return fail(ErrorCode::kTimeout,
                fmt::format("[cluster/join] worker {} waits for generation {}, which has not come "
                            "about in time; the launcher says who is missing",
                            options_.info.worker, to_int(than) + 1));
  }

  // All of these, again and again, until the coordinator asks for others, or lets this one in.
  void reach(const Reach& request) {
    to_reach_.clear();
    for (const WorkerInfo& worker : request.workers) to_reach_[worker.worker] = worker;
    for (const WorkerInfo& worker : request.workers) knock(worker);
  }

  void knock(const WorkerInfo& worker) {
    const auto found = to_reach_.find(worker.worker);
    if (found == to_reach_.end() || found->second != worker || !door_) return;
    const auto there = net::parse_address(worker.door);
    if (!there) return knocked(worker, there.error());
    door_->knock(*there, Deadline::after(loop_.clock(), kKnock),
                 [weak = weak_from_this(), worker](const Status& outcome) {
                   if (const auto self = weak.lock()) self->knocked(worker, outcome);
                 });
  }

  void knocked(const WorkerInfo& worker, const Status& outcome) {
    if (outcome) {
      to_reach_.erase(worker.worker);
      return send(Reached{{worker.worker}});
    }
    const std::string why = outcome.error().message;
    send(Unreached{worker.worker, why});
    {
      const std::lock_guard lock(mutex_);
      unreached_ = fmt::format(
          "[cluster/join] worker {} is not let in: it and worker {} (host {}, {}) do not reach "
          "each "
          "other: {}",
          options_.info.worker, worker.worker, worker.host, worker.door, why);
      log_->warn("{}; trying again", unreached_);
    }
    again_[worker.worker] =
        loop_.call_at(loop_.clock().now() + kKnockAgain, [weak = weak_from_this(), worker] {
          if (const auto self = weak.lock()) self->knock(worker);
        });
  }

  void dump(bool stacks) {
    std::unique_lock lock(mutex_);
    const auto then = on_dump_;
    if (!then) missed_dump_ = stacks;
    lock.unlock();
    if (then) then(stacks);
  }

  void on_closed(const Error& why) {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      changed_.notify_all();
    }
    timer_ = nullptr;
    if (leaving_ || why.code == ErrorCode::kCancelled) return;
    lose(fail(ErrorCode::kPeerLost,
              fmt::format("[cluster/member] the coordinator at {} is gone ({}); the job cannot go "
                          "on, its launcher has most likely died",
                          to_string(options_.coordinator), why.message)));
  }

  void lose(const Error& why) {
    {
      const std::lock_guard lock(mutex_);
      if (!lost_error_) lost_error_ = why;
      changed_.notify_all();
    }
    store_->end(why);
    lost_.set(why);
  }

  net::Loop& loop_;
  MemberOptions options_;
  Logger log_;
  std::shared_ptr<RemoteStore> store_;
  std::shared_ptr<net::Connection> connection_;  // set once, before anything else runs
  std::unique_ptr<Door> door_;                   // likewise
  net::Registration timer_;                      // the loop's thread, as the two below
  std::map<std::int32_t, net::Registration> again_;
  std::map<std::int32_t, WorkerInfo> to_reach_;
  std::atomic<bool> leaving_{false};
  std::atomic<bool> resigned_{false};
  std::atomic<int> stop_reason_{-1};
  Latched<StopReason> stop_;
  Latched<> let_go_;
  Latched<Error> lost_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Membership membership_;
  ClockOffset clock_offset_;
  std::string unreached_;  // why it is not let in
  std::function<void(bool)> on_dump_;
  std::optional<bool> missed_dump_;  // asked before anybody was there to answer: with stacks?
  std::function<void(const Membership&)> on_generation_;
  std::optional<Error> lost_error_;
  bool closed_ = false;
};

class NetworkMember : public Member {
 public:
  explicit NetworkMember(std::shared_ptr<Session> session) : session_(std::move(session)) {}
  ~NetworkMember() override { session_->close(); }

  Membership membership() const override { return session_->membership_now(); }
  Generation generation() const override { return session_->generation_now(); }
  Result<Membership> wait_newer(Generation than, Deadline deadline) override {
    return session_->wait_newer(than, deadline);
  }
  std::shared_ptr<KvStore> store(Generation generation) override {
    return session_->store(generation);
  }
  void on_generation(std::function<void(const Membership&)> then) override {
    session_->on_generation(std::move(then));
  }
  void report(Bytes content) override { session_->send(Report{std::move(content)}); }
  Duration clock_offset() const override { return session_->clock_offset(); }
  std::optional<StopReason> stop_requested() const noexcept override {
    return session_->stop_requested();
  }
  void on_stop(std::function<void(StopReason)> then) override {
    session_->stop().on([then = std::move(then)](const StopReason& reason) { then(reason); });
  }
  void on_let_go(std::function<void()> then) override { session_->let_go().on(then); }
  void on_dump(std::function<void(bool)> then) override { session_->on_dump(std::move(then)); }
  void answer_dump(Bytes content) override { session_->send(Dumped{std::move(content)}); }
  void on_lost(std::function<void(const Error&)> then) override { session_->lost().on(then); }
  void fail(Generation generation, const Error& error, Concerns concerns,
            Deadline deadline) noexcept override {
    session_->send_last(Failure{error, session_->progress_now(), concerns, generation}, deadline);
  }
  void quarantine(const Error& why, Deadline deadline) noexcept override {
    session_->send_last(Quarantine{why}, deadline);
  }
  void suspect(Generation generation, const Error& why) override {
    session_->send(Suspect{generation, why});
  }
  void tell_whole() override { session_->send(Whole{}); }
  void drain() override { session_->send(Drain{}); }
  void resign() override { session_->resign(); }
  bool resigned() const noexcept override { return session_->resigned(); }
  void leave(int signal, Deadline deadline) noexcept override {
    session_->send_last(Leave{signal}, deadline);
  }

 private:
  std::shared_ptr<Session> session_;
};

}  // namespace

Result<std::unique_ptr<Member>> ask_to_join(net::Network& network, MemberOptions options,
                                            Deadline deadline, Logger log) {
  const TimePoint begun = network.loop().clock().now();
  auto connection = net::connect_and_wait(network, options.coordinator, deadline,
                                          net::Network::Retry::kUntilDeadline);
  if (!connection) return with_context(connection.error(), "[cluster/join]");
  const Duration took = network.loop().clock().now() - begun;
  const auto session =
      std::make_shared<Session>(network.loop(), std::move(options), std::move(log));
  MUSTER_TRY(session->open(network));
  session->begin(std::move(*connection), took);
  network.loop().post([weak = std::weak_ptr(session)] {
    if (const auto open = weak.lock()) open->beat();
  });
  return std::unique_ptr<Member>(std::make_unique<NetworkMember>(session));
}

Result<std::unique_ptr<Member>> join(net::Network& network, MemberOptions options,
                                     Deadline deadline, Logger log) {
  MUSTER_ASSIGN(auto member, ask_to_join(network, std::move(options), deadline, std::move(log)));
  MUSTER_TRY(member->wait_newer(Generation{0}, deadline));
  return member;
}

}  // namespace muster::cluster
