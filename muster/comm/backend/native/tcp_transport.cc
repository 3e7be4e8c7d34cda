#include "muster/comm/backend/native/tcp_transport.h"

#include <fmt/format.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "muster/base/random.h"
#include "muster/comm/engine/errors.h"

namespace muster::comm {
namespace {

// Frames of comm (net/frame.h): what `tag` and `sequence` of the header mean.
enum : net::FrameKind {
  kHello = net::kFirstCommFrame,  // the first from whoever connected
  kCollective,                    // tag: collective, sequence: message in it
  kMessage,                       // tag: the user's, sequence: how many went before
  kProbe,                         // "how far are you?"
  kProgress,                      // tag: the collective reached
  kFailure,                       // tag: error code, sequence: culprit, payload: text
};

// How long a rank may take to say how far it is; its network thread answers, whatever else it does.
constexpr Duration kProbeTime = std::chrono::milliseconds(300);
// How long the news of a failure may take to leave.
constexpr Duration kFarewell = std::chrono::milliseconds(200);

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

// What the transport and the callbacks on the network's thread share. Thread-safe.
struct Shared {
  Shared(Group g, std::uint32_t c, Clock& clock_, Logger log_)
      : group(g),
        context(c),
        clock(clock_),
        log(std::move(log_)),
        inbox(g.size, clock_),
        connections(static_cast<std::size_t>(g.size)),
        progress(static_cast<std::size_t>(g.size)) {}

  const Group group;
  const std::uint32_t context;  // tells this group's frames from another's
  Clock& clock;
  const Logger log;
  Inbox inbox;
  std::atomic<std::uint32_t> entered{0};

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<net::Connection>> connections;  // guarded by mutex, as all below
  std::vector<std::optional<std::uint32_t>> progress;         // answers to the last probe
  std::size_t leaving = 0;                                    // posted, not yet handed over
  bool failed = false;

  net::FrameHeader header(net::FrameKind kind, std::uint32_t tag = 0,
                          std::uint32_t sequence = 0) const {
    net::FrameHeader header;
    header.kind = kind;
    header.generation = group.generation;
    header.sender = group.rank;
    header.context = context;
    header.tag = tag;
    header.sequence = sequence;
    return header;
  }

  std::shared_ptr<net::Connection> connection(Rank rank) {
    const std::lock_guard lock(mutex);
    return connections[static_cast<std::size_t>(to_int(rank))];
  }

  void connected(Rank rank, std::shared_ptr<net::Connection> connection) {
    const std::lock_guard lock(mutex);
    connections[static_cast<std::size_t>(to_int(rank))] = std::move(connection);
    changed.notify_all();
  }

  std::optional<Rank> unconnected() const {  // mutex is held
    for (std::int32_t rank = 0; rank < group.size; ++rank)
      if (rank != to_int(group.rank) && !connections[static_cast<std::size_t>(rank)])
        return Rank{rank};
    return std::nullopt;
  }

  void handed_over() {
    const std::lock_guard lock(mutex);
    --leaving;
    changed.notify_all();
  }

  void for_connections(const std::function<void(net::Connection&)>& call) {
    std::vector<std::shared_ptr<net::Connection>> all;
    {
      const std::lock_guard lock(mutex);
      all = connections;
    }
    for (const auto& connection : all)
      if (connection) call(*connection);
  }
};

// The frames of one connection, on the network's thread.
class PeerReceiver final : public net::Receiver {
 public:
  PeerReceiver(std::weak_ptr<Shared> shared, Rank peer) : shared_(std::move(shared)), peer_(peer) {}

  // Where frames come in before the sender has said who it is.
  void set_connection(std::weak_ptr<net::Connection> connection) {
    connection_ = std::move(connection);
  }

  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    const auto shared = shared_.lock();
    if (!shared) return fail(ErrorCode::kStale, "[comm/tcp] the group is gone");
    MUSTER_TRY(check(*shared, header));
    payload_.resize(header.length);
    return std::optional(std::span(payload_));
  }

  void on_frame(const net::FrameHeader& header) override {
    const auto shared = shared_.lock();
    if (!shared) return;
    switch (header.kind) {
      case kHello:
        return meet(*shared, header.sender);
      case kCollective:
        return shared->inbox.deliver(peer_, {header.tag, header.sequence}, std::move(payload_));
      case kMessage:
        return shared->inbox.deliver(
            peer_, {MessageId::kPointToPoint | header.tag, header.sequence}, std::move(payload_));
      case kProbe:
        return answer(*shared);
      case kProgress:
        return note_progress(*shared, header.tag);
      default:
        return note_failure(*shared, header);
    }
  }

  void on_close(const Error& why) override {
    const auto shared = shared_.lock();
    if (!shared || peer_ == kNoRank) return;
    shared->inbox.close(
        peer_, fail(ErrorCode::kPeerLost,
                    fmt::format("[comm/tcp] rank {} closed its connection in "
                                "generation {}: {}",
                                to_int(peer_), to_int(shared->group.generation), why.message),
                    peer_));
  }

 private:
  Status check(const Shared& shared, const net::FrameHeader& header) const {
    const auto refuse = [&](std::string_view what) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("[comm/tcp] refused a frame of kind {} from rank {} in generation {}: {}",
                      header.kind, to_int(header.sender), to_int(header.generation), what));
    };
    if (header.generation != shared.group.generation) return refuse("another generation");
    if (header.context != shared.context) return refuse("another group");
    if (header.kind < kHello || header.kind > kFailure) return refuse("an unknown kind");
    if ((peer_ == kNoRank) != (header.kind == kHello)) return refuse("out of turn");
    const bool member = to_int(header.sender) > to_int(shared.group.rank) &&
                        to_int(header.sender) < shared.group.size;
    if (peer_ == kNoRank && !member) return refuse("no rank that connects to this one");
    if (peer_ != kNoRank && header.sender != peer_) return refuse("another sender");
    return ok();
  }

  void meet(Shared& shared, Rank sender) {
    peer_ = sender;
    if (auto connection = connection_.lock()) shared.connected(sender, std::move(connection));
  }

  void answer(Shared& shared) {
    if (const auto connection = shared.connection(peer_))
      connection->send(shared.header(kProgress, shared.entered), {});
  }

  void note_progress(Shared& shared, std::uint32_t reached) {
    const std::lock_guard lock(shared.mutex);
    shared.progress[static_cast<std::size_t>(to_int(peer_))] = reached;
    shared.changed.notify_all();
  }

  void note_failure(Shared& shared, const net::FrameHeader& header) {
    const std::string text(reinterpret_cast<const char*>(payload_.data()), payload_.size());
    shared.inbox.fail(told_by(peer_, {static_cast<ErrorCode>(header.tag), text,
                                      Rank{static_cast<std::int32_t>(header.sequence)}}));
  }

  const std::weak_ptr<Shared> shared_;
  Rank peer_;  // kNoRank until its hello
  std::weak_ptr<net::Connection> connection_;
  std::vector<std::byte> payload_;
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::shared_ptr<Shared> shared, TcpOptions options)
      : shared_(std::move(shared)), options_(std::move(options)) {}

  ~TcpTransport() override {
    // What was sent leaves; nothing is waited for.
    const auto until = Deadline::after(shared_->clock, kFarewell);
    shared_->for_connections([&](net::Connection& connection) { connection.finish(until); });
  }

  Wire wire() const noexcept override { return Wire::kTcp; }
  Inbox& inbox() noexcept override { return shared_->inbox; }

  Status post(Rank to, MessageId id, std::span<const std::byte> bytes) override {
    if (to == shared_->group.rank) {
      shared_->inbox.deliver(to, id, {bytes.begin(), bytes.end()});
      return ok();
    }
    const auto connection = shared_->connection(to);
    const bool message = (id.channel & MessageId::kPointToPoint) != 0;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->failed) return muster::fail(ErrorCode::kCancelled, "[comm/tcp] has failed");
      ++shared_->leaving;
    }
    connection->send(
        shared_->header(message ? kMessage : kCollective, static_cast<std::uint32_t>(id.channel),
                        static_cast<std::uint32_t>(id.number)),
        {bytes}, [shared = shared_](const Status&) { shared->handed_over(); });
    return ok();
  }

  // What could not be handed over because a connection broke shows at the next take.
  Status settle(Deadline deadline) override {
    std::unique_lock lock(shared_->mutex);
    while (shared_->leaving > 0) {
      if (shared_->failed) return muster::fail(ErrorCode::kCancelled, "[comm/tcp] has failed");
      if (deadline.passed(shared_->clock))
        return muster::fail(ErrorCode::kTimeout, "a peer takes no data");
      shared_->clock.wait_until(lock, shared_->changed, deadline.at());
    }
    return ok();
  }

  void drain() noexcept override {
    const auto until = Deadline::after(shared_->clock, 10 * kFarewell);
    std::unique_lock lock(shared_->mutex);
    while (shared_->leaving > 0 && !until.passed(shared_->clock))
      shared_->clock.wait_until(lock, shared_->changed, until.at());
  }

  void enter(std::uint64_t sequence) override {
    shared_->entered = static_cast<std::uint32_t>(sequence);
  }

  std::vector<Rank> missing(std::uint64_t sequence) override;

  void fail(const Error& why) noexcept override {
    if (!begin_failure(why)) return;
    const auto until = Deadline::after(shared_->clock, kFarewell);
    const auto header = shared_->header(kFailure, static_cast<std::uint32_t>(why.code),
                                        static_cast<std::uint32_t>(to_int(why.peer)));
    shared_->for_connections([&](net::Connection& connection) {
      connection.send(header, bytes_of(why.message));
      connection.finish(until);
    });
  }

  void stop(const Error& why) noexcept override {
    if (!begin_failure(why)) return;
    const auto until = Deadline::after(shared_->clock, kFarewell);
    shared_->for_connections([&](net::Connection& connection) { connection.finish(until); });
  }

  Result<std::unique_ptr<Transport>> split(Group part, std::int32_t, const Exchange& exchange,
                                           Deadline deadline) override {
    return create_tcp_transport(part, options_, exchange, deadline);
  }

 private:
  bool begin_failure(const Error& why) noexcept {
    shared_->inbox.fail(why);
    const std::lock_guard lock(shared_->mutex);
    shared_->changed.notify_all();
    return !std::exchange(shared_->failed, true);
  }

  const std::shared_ptr<Shared> shared_;
  const TcpOptions options_;
};

std::vector<Rank> TcpTransport::missing(std::uint64_t sequence) {
  const auto until = Deadline::after(shared_->clock, kProbeTime);
  {
    const std::lock_guard lock(shared_->mutex);
    for (auto& answer : shared_->progress) answer.reset();
  }
  shared_->for_connections(
      [&](net::Connection& connection) { connection.send(shared_->header(kProbe), {}); });
  const auto reached = [&](std::size_t rank) {  // mutex is held
    const auto& answer = shared_->progress[rank];
    return answer && static_cast<std::int32_t>(*answer - static_cast<std::uint32_t>(sequence)) >= 0;
  };
  const auto answered = [&](std::size_t rank) {
    return rank == static_cast<std::size_t>(to_int(shared_->group.rank)) ||
           shared_->progress[rank].has_value();
  };
  std::vector<Rank> ranks;
  std::unique_lock lock(shared_->mutex);
  for (std::size_t rank = 0; rank < shared_->progress.size(); ++rank) {
    while (!answered(rank) && !until.passed(shared_->clock))
      shared_->clock.wait_until(lock, shared_->changed, until.at());
    if (rank != static_cast<std::size_t>(to_int(shared_->group.rank)) && !reached(rank))
      ranks.push_back(Rank{static_cast<std::int32_t>(rank)});
  }
  return ranks;
}

// Every rank listens, and connects to those below it.
class Meeting {
 public:
  Meeting(Group group, const TcpOptions& options) : group_(group), options_(options) {}

  Result<std::unique_ptr<Transport>> hold(const Exchange& exchange, Deadline deadline);

 private:
  Status listen();
  Status connect(const std::vector<std::string>& addresses, Deadline deadline);
  Status await_others(Deadline deadline);
  void accept(const std::shared_ptr<net::Connection>& connection);
  Error with_rank(Error why, Rank rank) const;

  const Group group_;
  const TcpOptions& options_;
  std::uint32_t context_ = 0;
  std::shared_ptr<Shared> shared_;
  std::unique_ptr<net::Listener> listener_;
  // Strangers until their hello; guarded by the mutex, which outlives callbacks with it.
  struct Waiting {
    std::mutex mutex;
    std::weak_ptr<Shared> shared;
    std::vector<std::shared_ptr<net::Connection>> connections;
  };
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

Error Meeting::with_rank(Error why, Rank rank) const {
  why = with_context(std::move(why),
                     fmt::format("[comm/tcp] rank {} cannot reach rank {} in generation {}",
                                 to_int(group_.rank), to_int(rank), to_int(group_.generation)));
  why.peer = rank;
  return why;
}

void start(const std::shared_ptr<net::Connection>& connection,
           const std::shared_ptr<Shared>& shared, Rank peer) {
  auto receiver = std::make_shared<PeerReceiver>(shared, peer);
  receiver->set_connection(connection);
  connection->start(std::move(receiver));
}

// Rank 0's exchange decides the context, so early connections wait until it is known.
Status Meeting::listen() {
  MUSTER_ASSIGN(listener_, options_.network->listen(
                               {options_.listen_host, 0},
                               [waiting = waiting_](std::shared_ptr<net::Connection> connection) {
                                 const std::lock_guard lock(waiting->mutex);
                                 waiting->connections.push_back(connection);
                                 if (const auto shared = waiting->shared.lock())
                                   start(connection, shared, kNoRank);
                               }));
  return ok();
}

Status Meeting::connect(const std::vector<std::string>& addresses, Deadline deadline) {
  for (std::int32_t rank = 0; rank < to_int(group_.rank); ++rank) {
    const std::string& text = addresses[static_cast<std::size_t>(rank)];
    auto address = net::parse_address(text.substr(0, text.find(' ')));
    if (!address) return with_rank(std::move(address).error(), Rank{rank});
    auto connection = net::connect_and_wait(*options_.network, *address, deadline);
    if (!connection) return with_rank(std::move(connection).error(), Rank{rank});
    (*connection)->send(shared_->header(kHello), {});
    shared_->connected(Rank{rank}, *connection);
    start(*connection, shared_, Rank{rank});
  }
  return ok();
}

Status Meeting::await_others(Deadline deadline) {
  std::unique_lock lock(shared_->mutex);
  while (const auto rank = shared_->unconnected()) {
    if (deadline.passed(shared_->clock))
      return with_rank(fail(ErrorCode::kTimeout, "it did not connect"), *rank);
    shared_->clock.wait_until(lock, shared_->changed, deadline.at());
  }
  return ok();
}

Result<std::unique_ptr<Transport>> Meeting::hold(const Exchange& exchange, Deadline deadline) {
  Status outcome = listen();
  const std::string address = outcome ? net::to_string(listener_->address()) : "";
  const std::string mine =
      fmt::format("{} {}", address, static_cast<std::uint32_t>(system_entropy().next()));
  MUSTER_ASSIGN(const auto addresses, exchange(mine, deadline));
  const std::string& first = addresses[0];
  const auto context = static_cast<std::uint32_t>(std::stoul(first.substr(first.find(' ') + 1)));
  shared_ =
      std::make_shared<Shared>(group_, context, options_.network->loop().clock(), options_.log);
  {
    const std::lock_guard lock(waiting_->mutex);
    waiting_->shared = shared_;
    for (const auto& connection : waiting_->connections) start(connection, shared_, kNoRank);
  }
  if (outcome) outcome = connect(addresses, deadline);
  if (outcome) outcome = await_others(deadline);
  MUSTER_ASSIGN(const auto outcomes, exchange(outcome ? "" : outcome.error().message, deadline));
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].empty())
      return fail(ErrorCode::kUnavailable, outcomes[rank],
                  outcome ? Rank{static_cast<std::int32_t>(rank)} : outcome.error().peer);
  return std::make_unique<TcpTransport>(shared_, options_);
}

}  // namespace

Result<std::unique_ptr<Transport>> create_tcp_transport(Group group, const TcpOptions& options,
                                                        const Exchange& exchange,
                                                        Deadline deadline) {
  return Meeting(group, options).hold(exchange, deadline);
}

}  // namespace muster::comm
