#include "muster/comm/engine/engine_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/comm/engine/errors.h"
#include "muster/comm/engine/rank_names.h"
#include "muster/comm/engine/split.h"

namespace muster::comm {
namespace {

// How long a collective stays with those who may yet wait for it, and so run it themselves, before
// the engine's own thread begins it: much shorter than what is worth overlapping, much longer than
// from submit() to wait().
constexpr Duration kGrace = std::chrono::microseconds(200);
// How often that thread looks again after the last submission; then it sleeps until the next one.
constexpr int kLooks = 5;
// Where those who wait have run all of late, it looks more and more rarely: each look takes the
// core from one of them in the middle of an operation, for which all other ranks wait.
constexpr Duration kMostGrace = 8 * kGrace;

struct Submitted {
  Op op;
  OpOptions options;
  Deadline deadline;
  std::shared_ptr<WorkState> state;
};

bool point_to_point(const Op& op) noexcept {
  return std::holds_alternative<Send>(op) || std::holds_alternative<Recv>(op);
}

// Messages of one direction, peer and tag stay in order.
using Stream = std::tuple<bool, Rank, std::uint32_t>;
Stream stream_of(const Op& op) {
  if (const auto* send = std::get_if<Send>(&op)) return {true, send->to, send->tag};
  const auto& recv = std::get<Recv>(op);
  return {false, recv.from, recv.tag};
}

// Shared by the communicator, its two threads and those that wait. Lock order: mutex_ is never held
// while an operation ends or the engine is called. The engine and its peers know ranks of this
// group, whoever waits here those of the whole.
//
// Collectives run one at a time, in order, in whatever thread has the turn: one that waits for one
// of them, without any thread having to wake up, or else the engine's own.
class Queue final : public WorkRunner, public std::enable_shared_from_this<Queue> {
 public:
  Queue(Group group, std::unique_ptr<Engine> engine, Clock& clock, RankNames names)
      : group_(group), engine_(std::move(engine)), clock_(clock), names_(std::move(names)) {}

  const Group& group() const noexcept { return group_; }
  Engine& engine() noexcept { return *engine_; }
  Clock& clock() noexcept { return clock_; }
  const RankNames& names() const noexcept { return names_; }

  Work push(Op op, const OpOptions& options);
  void fail(const Error& why, bool tell_peers) noexcept;

  void help(const WorkState& state) override;
  void hasten(const WorkState& state) override;
  std::optional<Awaited> awaited(const WorkState& state) override;
  void run_collectives();
  void run_messages();
  // After fail(), with both threads ended: the engine goes once nobody runs a collective any more.
  // Whoever does has called this from a callback: then it goes with the last that knows the queue.
  void release_engine();

 private:
  using Lock = std::unique_lock<std::mutex>;
  template <class Outcome, class Attempt>
  Outcome guarded(const Submitted& submitted, const Attempt& attempt) const noexcept;
  bool await_turn(Lock& lock);
  void nap(Lock& lock, Duration length);
  bool looks_soon() const noexcept { return nap_ > Duration::zero() && nap_ <= kGrace; }
  void run_next(Lock& lock);
  void leave();
  Status failed(const Submitted& message, Error why);
  Status ended(const Error& why);
  bool loses_place(const Submitted& message, ErrorCode code) const;
  Error late_error(const Submitted& message) const;
  std::optional<Status> lateness(const Submitted& message) const;
  std::optional<Status> attempt(const Submitted& message);
  void attempt_all(std::list<Submitted>& pending);
  TimePoint earliest_deadline(const std::list<Submitted>& pending) const;

  const Group group_;
  std::shared_ptr<Engine> engine_;  // also of who asks it something when it goes
  Clock& clock_;
  const RankNames names_;
  std::mutex mutex_;
  std::condition_variable added_;      // the engine's thread sleeps on it
  std::condition_variable left_;       // a turn is over
  std::deque<Submitted> collectives_;  // guarded by mutex_, as all below
  std::uint64_t begun_ = 0;            // collectives
  std::optional<std::thread::id> turn_;
  const WorkState* running_ = nullptr;  // what that one is at
  bool urgent_ = false;                 // somebody hopes for what is queued and does not run it
  Duration nap_{};                 // of the engine's thread, which then looks again; 0: it sleeps
  std::list<Submitted> messages_;  // not yet seen by run_messages
  std::optional<Error> failure_;   // as it is told outside
};

Work Queue::push(Op op, const OpOptions& options) {
  if (auto valid = check_op(op, group_); !valid) return Work::ended(std::move(valid));
  const bool message = point_to_point(op);
  auto state =
      std::make_shared<WorkState>(message ? std::weak_ptr<WorkRunner>() : weak_from_this());
  Submitted submitted{std::move(op), options, Deadline::after(clock_, options.timeout), state};
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return Work::ended(*failure_);
    if (message) {
      messages_.push_back(std::move(submitted));
    } else {
      collectives_.push_back(std::move(submitted));
      // Who submits several does not wait for each at once.
      const bool seen = collectives_.size() == 1 ? nap_ > Duration::zero() : looks_soon();
      if (!turn_ && !seen) added_.notify_one();
    }
  }
  if (message) engine_->wake();
  return Work(std::move(state));
}

// After the first failure the group's order is lost, so everything ends: what waits here now, what
// runs as soon as the engine hears of it, and what comes later.
void Queue::fail(const Error& why, bool tell_peers) noexcept {
  const Error told = names_.outside(why);
  std::deque<Submitted> waiting;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = told;
    waiting.swap(collectives_);
    for (Submitted& message : messages_) waiting.push_back(std::move(message));
    messages_.clear();
    added_.notify_all();
  }
  if (tell_peers)
    engine_->fail(why);
  else
    engine_->stop(why);
  for (Submitted& submitted : waiting) submitted.state->finish(told);
}

void Queue::help(const WorkState& state) {
  Lock lock(mutex_);
  if (turn_) {
    urgent_ = true;
    return;
  }
  turn_ = std::this_thread::get_id();
  while (!state.ended() && !failure_ && !collectives_.empty()) run_next(lock);
  leave();
}

void Queue::hasten(const WorkState& state) {
  const std::lock_guard lock(mutex_);
  if (state.ended() || collectives_.empty() || urgent_) return;
  urgent_ = true;
  if (!turn_) added_.notify_one();
}

// Of what is queued the engine knows nothing yet.
std::optional<Awaited> Queue::awaited(const WorkState& state) {
  Lock lock(mutex_);
  const bool running = running_ == &state;
  const bool queued = std::ranges::any_of(
      collectives_, [&](const Submitted& each) { return each.state.get() == &state; });
  const auto engine = running || queued ? engine_ : nullptr;
  lock.unlock();
  auto awaited = engine ? engine->awaited() : std::nullopt;
  if (!awaited) return awaited;
  if (!running) awaited->ranks.clear();
  awaited->ranks = names_.outside(std::move(awaited->ranks));
  return awaited;
}

void Queue::run_collectives() {
  Lock lock(mutex_);
  while (await_turn(lock)) {
    turn_ = std::this_thread::get_id();
    while (!failure_ && !collectives_.empty()) run_next(lock);
    leave();
  }
}

// Until the engine's own thread is to run what is queued: somebody hopes for it, or nobody has
// begun it since the last look. False: no more will come.
bool Queue::await_turn(Lock& lock) {
  bool seen_open = false;
  std::uint64_t seen_begun = begun_;
  Duration grace = kGrace;
  for (int idle = 0; !failure_;) {
    const bool open = !turn_ && !collectives_.empty();
    const bool untouched = begun_ == seen_begun;
    if (open && (urgent_ || (seen_open && untouched))) return true;
    idle = untouched ? idle + 1 : 0;
    grace = untouched ? kGrace : std::min(2 * grace, kMostGrace);
    seen_open = open;
    seen_begun = begun_;
    const bool in_a_long_one = turn_ && untouched;
    if (open || (!in_a_long_one && idle < kLooks)) {
      nap(lock, open ? kGrace : grace);
    } else {
      added_.wait(lock, [&] { return failure_ || (!turn_ && !collectives_.empty()); });
      idle = 0;
    }
  }
  return false;
}

void Queue::nap(Lock& lock, Duration length) {
  nap_ = length;
  clock_.wait_until(lock, added_, clock_.now() + length);
  nap_ = Duration::zero();
}

// What the engine throws is a mistake of its own. It ends the group like any other failure: let
// through, it would end the process, or leave the turn with a thread that has gone.
template <class Outcome, class Attempt>
Outcome Queue::guarded(const Submitted& submitted, const Attempt& attempt) const noexcept {
  const auto broke = [&](std::string_view what) -> Outcome {
    return muster::fail(
        ErrorCode::kInternal,
        fmt::format("[comm/{}] rank {} broke in generation {} ({}): {}; this is a "
                    "mistake in muster, please report it",
                    name(submitted.op), to_int(group_.rank), to_int(group_.generation),
                    subject(submitted.op, submitted.options), what),
        group_.rank);
  };
  try {
    return attempt();
  } catch (const std::exception& thrown) {
    return broke(thrown.what());
  } catch (...) {
    return broke("it does not say why");
  }
}

// By whoever has the turn.
void Queue::run_next(Lock& lock) {
  const Submitted next = std::move(collectives_.front());
  collectives_.pop_front();
  const std::uint64_t sequence = ++begun_;
  running_ = next.state.get();
  lock.unlock();
  Status outcome = guarded<Status>(next, [&] {
    return engine_->run({next.op, next.options, sequence, next.deadline});
  });
  if (!outcome) {
    fail(outcome.error(), true);
    engine_->drain();  // the caller may free its memory at once
    outcome = names_.outside(outcome.error());
  }
  next.state->finish(std::move(outcome));
  lock.lock();
  running_ = nullptr;
}

void Queue::leave() {
  turn_.reset();
  if (collectives_.empty())
    urgent_ = false;
  else if (urgent_ || !looks_soon())
    added_.notify_one();
  if (failure_) left_.notify_all();
}

void Queue::release_engine() {
  Lock lock(mutex_);
  left_.wait(lock, [&] { return !turn_ || turn_ == std::this_thread::get_id(); });
  if (turn_) return;
  const auto engine = std::move(engine_);  // goes without the mutex
  lock.unlock();
}

// Whether nobody knows any more which message of its stream comes next: one was sent or taken in
// part, or is another than was expected, or the engine broke.
bool Queue::loses_place(const Submitted& message, ErrorCode code) const {
  const auto* recv = std::get_if<Recv>(&message.op);
  return recv == nullptr || code == ErrorCode::kInvalid || code == ErrorCode::kInternal ||
         engine_->has_part(*recv);
}

Status Queue::failed(const Submitted& message, Error why) {
  if (why.code != ErrorCode::kInternal)
    why = with_context(std::move(why), fmt::format("[comm/{}]", name(message.op)));
  // Somebody else's timeout ends a message too: then it names whom that one missed.
  if (std::holds_alternative<Send>(message.op) && why.code == ErrorCode::kTimeout &&
      why.peer == kNoRank)
    why = late_error(message);
  if (loses_place(message, why.code)) return ended(why);
  const std::lock_guard lock(mutex_);
  return failure_ ? *failure_ : names_.outside(why);  // what ended the group says more
}

// The group, with what ended it first.
Status Queue::ended(const Error& why) {
  fail(why, true);
  engine_->drain();
  const std::lock_guard lock(mutex_);
  return *failure_;
}

// The outcome of a message, or nothing while it is under way.
std::optional<Status> Queue::attempt(const Submitted& message) {
  const auto* send = std::get_if<Send>(&message.op);
  const auto* recv = std::get_if<Recv>(&message.op);
  auto moved = guarded<Result<bool>>(message, [&] {
    return send != nullptr ? engine_->try_send(*send, message.deadline) : engine_->try_recv(*recv);
  });
  if (!moved) return failed(message, std::move(moved).error());
  if (*moved) return ok();
  if (recv != nullptr && message.deadline.passed(clock_) && engine_->has_part(*recv))
    return ended(late_error(message));
  return lateness(message);
}

// Of a message that has not begun: its end, once its deadline has passed.
std::optional<Status> Queue::lateness(const Submitted& message) const {
  if (!message.deadline.passed(clock_)) return std::nullopt;
  return Status(names_.outside(late_error(message)));
}

Error Queue::late_error(const Submitted& message) const {
  const auto* send = std::get_if<Send>(&message.op);
  const Rank peer = send != nullptr ? send->to : std::get<Recv>(message.op).from;
  return timeout_error(message.op, message.options, group_, {peer});
}

TimePoint Queue::earliest_deadline(const std::list<Submitted>& pending) const {
  TimePoint earliest = clock_.now() + std::chrono::hours(1);  // woken by every submission
  for (const Submitted& message : pending) earliest = std::min(earliest, message.deadline.at());
  return earliest;
}

// In order of submission; what waits holds up later ones of the same peer and tag, which would
// otherwise overtake it.
void Queue::attempt_all(std::list<Submitted>& pending) {
  std::set<Stream> held;
  for (auto message = pending.begin(); message != pending.end();) {
    const Stream stream = stream_of(message->op);
    auto outcome = held.contains(stream) ? lateness(*message) : attempt(*message);
    if (outcome)
      message->state->finish(std::move(*outcome));
    else
      held.insert(stream);
    message = outcome ? pending.erase(message) : std::next(message);
  }
}

void Queue::run_messages() {
  std::list<Submitted> pending;
  for (;;) {
    const std::uint32_t seen = engine_->activity();
    {
      const std::lock_guard lock(mutex_);
      pending.splice(pending.end(), messages_);
      if (failure_) break;
    }
    attempt_all(pending);
    engine_->await_activity(seen, earliest_deadline(pending));
  }
  for (Submitted& message : pending) message.state->finish(*failure_);  // set once, never changed
}

class EngineCommunicator final : public Communicator {
 public:
  EngineCommunicator(Group group, std::unique_ptr<Engine> engine, Clock& clock, RankNames names)
      : queue_(std::make_shared<Queue>(group, std::move(engine), clock, std::move(names))),
        collectives_([queue = queue_] { queue->run_collectives(); }) {}

  ~EngineCommunicator() override {
    queue_->fail(
        fail(ErrorCode::kCancelled, fmt::format("[comm] rank {} left generation {}",
                                                to_int(group().rank), to_int(group().generation))),
        false);
    const bool collectives_ended = end(collectives_);
    const bool messages_ended = end(messages_);
    if (collectives_ended && messages_ended) queue_->release_engine();
  }

  const Group& group() const noexcept override { return queue_->group(); }

  std::vector<Rank> members() const override {
    return queue_->names().outside(Communicator::members());
  }

  Work submit(Op op, const OpOptions& options) override {
    if (point_to_point(op))
      std::call_once(first_message_, [this] {
        messages_ = std::thread([queue = queue_] { queue->run_messages(); });
      });
    return queue_->push(std::move(op), options);
  }

  Result<std::shared_ptr<Communicator>> split(int color, int key) override {
    const auto deadline = Deadline::after(queue_->clock(), kSplitTimeout);
    MUSTER_ASSIGN(const Division division, divide_group(*this, color, key));
    const RankNames names(queue_->names().outside(division.members));
    MUSTER_ASSIGN(auto engine, split_engine(division, color, names, deadline));
    auto part = std::make_shared<EngineCommunicator>(division.part, std::move(engine),
                                                     queue_->clock(), names);
    const std::lock_guard lock(mutex_);
    std::erase_if(parts_, [](const auto& other) { return other.expired(); });
    parts_.push_back(part);
    return part;
  }

  // A rank that waits in a part of the group has to hear of it as well.
  void abort(Error why) noexcept override {
    queue_->fail(queue_->names().inside(why), true);
    std::unique_lock lock(mutex_);
    const auto parts = parts_;
    lock.unlock();
    for (const auto& known : parts)
      if (const auto part = known.lock()) part->abort(why);
  }

  Result<Buffer> allocate(std::size_t bytes) override { return queue_->engine().allocate(bytes); }

 private:
  // What fails in an exchange is an operation of this group, the rest one of the part's engine.
  Result<std::unique_ptr<Engine>> split_engine(const Division& division, int color,
                                               const RankNames& names, Deadline deadline) {
    bool exchanged = true;
    const Exchange exchange = [&exchanged,
                               within = exchange_within(*this, division, queue_->clock())](
                                  const std::string& mine, Deadline until) {
      auto answers = within(mine, until);
      exchanged = answers.has_value();
      return answers;
    };
    auto engine = queue_->engine().split(division.part, color, exchange, deadline);
    if (engine || !exchanged) return engine;
    return names.outside(engine.error());
  }

  // Whether it has ended: a callback may hold the last reference, so that this runs on one of the
  // two threads.
  static bool end(std::thread& thread) {
    if (!thread.joinable()) return true;
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
      return false;
    }
    thread.join();
    return true;
  }

  std::shared_ptr<Queue> queue_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<EngineCommunicator>> parts_;  // that have split off; guarded by mutex_
  std::once_flag first_message_;
  std::thread collectives_;
  std::thread messages_;
};

}  // namespace

Result<Buffer> Engine::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  struct Block {
    explicit Block(std::size_t size) : memory(size + kAlignment) {
      void* start = memory.data();
      std::size_t room = memory.size();
      span = {static_cast<std::byte*>(std::align(kAlignment, size, start, room)), size};
    }
    std::vector<std::byte> memory;
    std::span<std::byte> span;
  };
  auto block = std::make_shared<Block>(bytes);
  return Buffer(block, &block->span);
}

std::shared_ptr<Communicator> create_communicator(Group group, std::unique_ptr<Engine> engine,
                                                  Clock& clock) {
  return std::make_shared<EngineCommunicator>(group, std::move(engine), clock, RankNames({}));
}

}  // namespace muster::comm
