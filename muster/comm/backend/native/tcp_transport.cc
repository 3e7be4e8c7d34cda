#include "muster/comm/backend/native/tcp_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "muster/base/number.h"
#include "muster/base/random.h"
#include "muster/comm/backend/native/share.h"
#include "muster/comm/backend/native/tcp_shared.h"
#include "muster/comm/engine/errors.h"

namespace muster::comm {
namespace {

// How long a rank may take to say how far it is; its network thread answers, whatever else it does.
constexpr Duration kProbeTime = std::chrono::seconds(1);

class TcpTransport final : public Transport {
 public:
  TcpTransport(std::shared_ptr<TcpShared> shared, TcpOptions options)
      : shared_(std::move(shared)), options_(std::move(options)) {}

  ~TcpTransport() override {
    // What was sent leaves: the network keeps the connections as long. No peer is waited for.
    const auto until = Deadline::after(shared_->clock, kFarewell);
    shared_->for_connections([&](net::Connection& connection) { connection.finish(until); });
    if (!options_.network->loop().on_loop_thread())
      shared_->await_told(Deadline::after(shared_->clock, kHandOver));
  }

  const Topology& topology() const noexcept override { return shared_->topology; }
  Inbox& inbox() noexcept override { return shared_->inbox; }

  Status post(Rank to, MessageId id, std::span<const std::byte> bytes) override {
    if (to == shared_->group.rank) {
      shared_->inbox.deliver(to, id, {bytes.begin(), bytes.end()});
      return ok();
    }
    // Who only sends takes nothing by which it could notice.
    if (const auto lost = shared_->inbox.lost(to)) return *lost;
    const auto connection = shared_->connection(to);
    bool reads_mine = false;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->failure) return *shared_->failure;
      reads_mine = shared_->reads_mine[static_cast<std::size_t>(to_int(to))];
    }
    auto* const payloads = reads_mine ? shared_->payloads_of(shared_->group.rank) : nullptr;
    if (const auto place = payloads != nullptr ? payloads->put(bytes) : std::nullopt)
      send_place(*connection, is_message(id) ? kMessageHere : kCollectiveHere, id, *place);
    else
      send_bytes(to, *connection, id, bytes);
    return ok();
  }

  Status settle(Deadline deadline) override {
    return await_leaving(deadline, [this] {
      return shared_->settling = shared_->first_leaving(&TcpShared::Leaving::of_collectives);
    });
  }

  Status settle_messages(Rank to, Deadline deadline) override {
    return await_leaving(deadline, [this, to] {
      const auto& leaving = shared_->leaving[static_cast<std::size_t>(to_int(to))];
      return leaving.of_messages > 0 ? std::optional(to) : std::nullopt;
    });
  }

  void drain() noexcept override {
    const auto until = Deadline::after(shared_->clock, 2 * kFarewell);
    std::unique_lock lock(shared_->mutex);
    if (!shared_->failure) return;
    const auto leaves = [this] {
      return shared_->first_leaving(&TcpShared::Leaving::of_collectives) ||
             shared_->first_leaving(&TcpShared::Leaving::of_messages);
    };
    while (leaves() && !until.passed(shared_->clock))
      shared_->clock.wait_until(lock, shared_->changed, until.at());
  }

  Status enter(std::uint64_t sequence, const Signature& mine) override {
    shared_->entered = static_cast<std::uint32_t>(sequence);
    signature_ = std::make_shared<const Signature>(mine);
    return shared_->calls.enter(sequence, mine);
  }

  void announce() override {
    const auto bytes = std::as_bytes(std::span(signature_.get(), 1));
    shared_->for_connections([&](net::Connection& connection) {
      connection.send(shared_->header(kCall, shared_->entered), {bytes.begin(), bytes.end()});
    });
  }

  std::vector<Rank> missing(std::uint64_t sequence) override;
  std::vector<Rank> awaited() override;

  void fail(const Error& why) noexcept override { shared_->fail(why); }

  void stop(const Error& why) noexcept override {
    if (!shared_->begin_failure(why)) return;
    const auto until = Deadline::after(shared_->clock, kFarewell);
    shared_->for_connections([&](net::Connection& connection) { connection.finish(until); });
  }

  Result<std::unique_ptr<Transport>> split(Group part, std::int32_t, const Exchange& exchange,
                                           Deadline deadline) override {
    return create_tcp_transport(part, options_, exchange, deadline);
  }

 private:
  net::FrameHeader header(TcpFrame kind, MessageId id) const {
    return shared_->header(kind, static_cast<std::uint32_t>(id.channel),
                           static_cast<std::uint32_t>(id.number));
  }
  // What could not be handed over because a connection broke shows at the next post or take.
  // `whose`: the rank whose bytes have yet to leave; called with the mutex held.
  Status await_leaving(Deadline deadline, const std::function<std::optional<Rank>()>& whose) {
    std::unique_lock lock(shared_->mutex);
    while (const auto rank = whose()) {
      if (shared_->failure) return *shared_->failure;
      if (const auto told = shared_->inbox.failure()) return *told;
      if (deadline.passed(shared_->clock))
        return muster::fail(ErrorCode::kTimeout,
                            fmt::format("rank {} takes no data", to_int(*rank)), *rank);
      shared_->clock.wait_until(lock, shared_->changed, deadline.at());
    }
    return ok();
  }
  void send_bytes(Rank to, net::Connection& connection, MessageId id,
                  std::span<const std::byte> bytes);
  void send_place(net::Connection& connection, TcpFrame kind, MessageId id,
                  const PayloadPlace& place);

  const std::shared_ptr<TcpShared> shared_;
  const TcpOptions options_;
  std::shared_ptr<const Signature> signature_;  // of the present collective; its thread only
};

void TcpTransport::send_bytes(Rank to, net::Connection& connection, MessageId id,
                              std::span<const std::byte> bytes) {
  const auto kind =
      is_message(id) ? &TcpShared::Leaving::of_messages : &TcpShared::Leaving::of_collectives;
  {
    const std::lock_guard lock(shared_->mutex);
    ++(shared_->leaving[static_cast<std::size_t>(to_int(to))].*kind);
  }
  std::vector<std::span<const std::byte>> pieces{bytes};
  const auto signed_by = is_first(id) ? signature_ : nullptr;
  if (signed_by) pieces.insert(pieces.begin(), std::as_bytes(std::span(signed_by.get(), 1)));
  connection.send(
      header(is_message(id) ? kMessage : kCollective, id), std::move(pieces),
      [shared = shared_, signed_by, to, kind](const Status&) { shared->handed_over(to, kind); });
}

// The bytes have left their memory already.
void TcpTransport::send_place(net::Connection& connection, TcpFrame kind, MessageId id,
                              const PayloadPlace& place) {
  std::vector<std::byte> text;
  const auto add = [&](std::span<const std::byte> bytes) {
    text.insert(text.end(), bytes.begin(), bytes.end());
  };
  if (is_first(id)) add(std::as_bytes(std::span(signature_.get(), 1)));
  add(std::as_bytes(std::span(&place, 1)));
  connection.send(header(kind, id), std::move(text));
}

std::vector<Rank> TcpTransport::missing(std::uint64_t sequence) {
  const auto until = Deadline::after(shared_->clock, kProbeTime);
  {
    const std::lock_guard lock(shared_->mutex);
    for (auto& answer : shared_->progress) answer.reset();
  }
  shared_->for_connections(
      [&](net::Connection& connection) { connection.send(shared_->header(kProbe), {}); });
  std::unique_lock lock(shared_->mutex);
  const auto own = static_cast<std::size_t>(to_int(shared_->group.rank));
  for (std::size_t rank = 0; rank < shared_->progress.size(); ++rank)
    while (rank != own && !shared_->gave_up[rank] && !shared_->progress[rank] &&
           !until.passed(shared_->clock))
      shared_->clock.wait_until(lock, shared_->changed, until.at());
  return shared_->furthest_behind(static_cast<std::uint32_t>(sequence));
}

std::vector<Rank> TcpTransport::awaited() {
  if (auto ranks = Transport::awaited(); !ranks.empty()) return ranks;
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->settling) return {};
  const auto& leaving = shared_->leaving[static_cast<std::size_t>(to_int(*shared_->settling))];
  return leaving.of_collectives > 0 ? std::vector{*shared_->settling} : std::vector<Rank>();
}

// How long a rank that is known to be there may take to connect: then the link is cut.
constexpr Duration kLink = std::chrono::seconds(10);
// So much longer waits who is connected to: whoever connects, and cannot, knows more of what it
// met.
constexpr Duration kSaid = std::chrono::milliseconds(500);

// What a rank tells the others: "address context", and where it has memory for those of its host
// "address context host pid descriptor token". The context of rank 0 is the group's.
struct Told {
  std::string_view address, context, host, memory;
};
Told read_told(std::string_view text) {
  Told told;
  told.address = next_word(text);
  told.context = next_word(text);
  told.host = next_word(text);
  told.memory = text;
  return told;
}

// The number of the group, behind the address of rank 0.
Result<std::uint32_t> context_of(const std::string& first, const Group& group) {
  if (const auto context = number_from<std::uint32_t>(read_told(first).context)) return *context;
  return no_sense(group, Rank{0}, "an address and a number", first);
}

// Who can share memory with whom, as all ranks were told.
Topology topology_of(const std::vector<std::string>& told) {
  std::vector<std::string> hosts;
  hosts.reserve(told.size());
  for (const std::string& text : told) hosts.emplace_back(read_told(text).host);
  return Topology::of_names(hosts);
}

// Every rank listens, and connects to those below it.
class Meeting {
 public:
  Meeting(Group group, const TcpOptions& options) : group_(group), options_(options) {}

  Result<std::unique_ptr<Transport>> hold(const Exchange& exchange, Deadline deadline);

 private:
  Status listen();
  std::string introduction();
  Status let_in(const std::vector<std::string>& told);
  void map_payloads(const std::vector<std::string>& told);
  void tell_mapped();
  Status connect(Deadline deadline);
  Status greet(const TcpShared::Answer& answer);
  Status await_others(Deadline deadline);
  Clock& clock() const { return options_.network->loop().clock(); }
  std::string_view address_of(Rank rank) const;
  std::string named(Rank rank) const;
  Error with_rank(Error why, Rank rank) const;
  Error not_connected(Rank rank) const;

  const Group group_;
  const TcpOptions& options_;
  std::shared_ptr<TcpShared> shared_;
  std::unique_ptr<net::Listener> listener_;
  std::vector<std::string> told_;  // by each rank; see Told
  std::shared_ptr<HostPayloads> own_payloads_;
  // Strangers until their hello; guarded by the mutex, which outlives callbacks with it.
  struct Waiting {
    std::mutex mutex;
    std::weak_ptr<TcpShared> shared;
    std::vector<std::shared_ptr<net::Connection>> connections;
  };
  const std::shared_ptr<Waiting> waiting_ = std::make_shared<Waiting>();
};

std::string_view Meeting::address_of(Rank rank) const {
  const auto index = static_cast<std::size_t>(to_int(rank));
  return index < told_.size() ? read_told(told_[index]).address : std::string_view();
}

// "rank 2 (10.0.0.7)": people know hosts, and where a link is cut the address is what matters.
std::string Meeting::named(Rank rank) const {
  const std::string_view address = address_of(rank);
  const auto port = address.rfind(':');
  if (port == std::string_view::npos) return fmt::format("rank {}", to_int(rank));
  return fmt::format("rank {} ({})", to_int(rank), address.substr(0, port));
}

Error Meeting::with_rank(Error why, Rank rank) const {
  why = with_context(std::move(why),
                     fmt::format("[comm/network] {} cannot reach {} in generation {}",
                                 named(group_.rank), named(rank), to_int(group_.generation)));
  why.peer = rank;
  return why;
}

// Of one that is to connect to this rank no more is known than that it is there: it has told its
// address.
Error Meeting::not_connected(Rank rank) const {
  if (rank < group_.rank) return with_rank(fail(ErrorCode::kTimeout, "it did not answer"), rank);
  return fail(ErrorCode::kTimeout,
              fmt::format("[comm/network] {} cannot reach {} in generation {}: it did not connect "
                          "to {} in time; a firewall keeps it from there, or it hangs: hosts of a "
                          "job have to reach each other at any port above 1023",
                          named(rank), named(group_.rank), to_int(group_.generation),
                          address_of(group_.rank)),
              rank);
}

// Rank 0's exchange decides the context, so early connections wait until it is known.
Status Meeting::listen() {
  MUSTER_ASSIGN(listener_,
                options_.network->listen(
                    {options_.listen_host, 0},
                    [waiting = waiting_](const std::shared_ptr<net::Connection>& connection) {
                      const std::lock_guard lock(waiting->mutex);
                      waiting->connections.push_back(connection);
                      if (const auto shared = waiting->shared.lock())
                        start_reading(connection, shared, kNoRank);
                    }));
  return ok();
}

std::string Meeting::introduction() {
  std::string text = fmt::format("{} {}", listener_ ? net::to_string(listener_->address()) : "",
                                 static_cast<std::uint32_t>(system_entropy().next()));
  if (options_.host.empty()) return text;
  auto made = HostPayloads::create();
  if (!made) {
    options_.log->info("no memory is shared with the others of this host: {}",
                       made.error().message);
    return text;
  }
  own_payloads_ = std::move(*made);
  return text + fmt::format(" {} {}", options_.host, to_text(own_payloads_->address()));
}

// What cannot be mapped is sent over the connection like everything else.
void Meeting::map_payloads(const std::vector<std::string>& told) {
  if (!own_payloads_) return;
  shared_->payloads.resize(told.size());
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    const Told theirs = read_told(told[rank]);
    if (Rank{static_cast<std::int32_t>(rank)} == group_.rank) {
      shared_->payloads[rank] = own_payloads_;
    } else if (const auto address = memory_address_from(theirs.memory);
               address && theirs.host == options_.host) {
      auto opened = HostPayloads::open(*address);
      if (opened)
        shared_->payloads[rank] = std::move(*opened);
      else
        options_.log->info("no memory is shared with rank {}: {}", rank, opened.error().message);
    }
  }
}

void Meeting::tell_mapped() {
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    if (Rank{rank} != group_.rank && shared_->payloads_of(Rank{rank}) != nullptr)
      shared_->connection(Rank{rank})->send(shared_->header(kMapped), {});
}

Status Meeting::let_in(const std::vector<std::string>& told) {
  MUSTER_ASSIGN(const std::uint32_t context, context_of(told[0], group_));
  shared_ = std::make_shared<TcpShared>(group_, context, topology_of(told), clock());
  map_payloads(told);
  const std::lock_guard lock(waiting_->mutex);
  waiting_->shared = shared_;
  for (const auto& connection : waiting_->connections) start_reading(connection, shared_, kNoRank);
  return ok();
}

// Begins to, with all at once. All listen by now: who does not is gone, and who lets go of a
// handshake has too much to do.
Status Meeting::connect(Deadline deadline) {
  for (Rank rank{0}; rank < group_.rank; rank = Rank{to_int(rank) + 1}) {
    auto address = net::parse_address(std::string(address_of(rank)));
    if (!address) return with_rank(std::move(address).error(), rank);
    options_.network->connect(
        *address, deadline,
        [shared = shared_, rank](Result<std::shared_ptr<net::Connection>> made) {
          shared->answered({rank, std::move(made)});
        },
        net::Network::Retry::kIfBroken);
  }
  return ok();
}

// What the loop's own thread sends may be overtaken by what others send: the hello comes from here,
// as what follows it does.
Status Meeting::greet(const TcpShared::Answer& answer) {
  if (!answer.made) return with_rank(answer.made.error(), answer.rank);
  const auto& connection = *answer.made;
  connection->send(shared_->header(kHello), {});
  shared_->connected(answer.rank, connection);
  start_reading(connection, shared_, answer.rank);
  return ok();
}

Status Meeting::await_others(Deadline deadline) {
  std::unique_lock lock(shared_->mutex);
  while (const auto rank = shared_->unconnected()) {
    if (const auto answers = std::exchange(shared_->answers, {}); !answers.empty()) {
      lock.unlock();
      for (const TcpShared::Answer& answer : answers) MUSTER_TRY(greet(answer));
      lock.lock();
      continue;
    }
    if (deadline.passed(shared_->clock)) return not_connected(*rank);
    if (options_.cancelled && options_.cancelled())
      return with_rank(fail(ErrorCode::kStale, "the generation has ended"), *rank);
    shared_->clock.wait_until(lock, shared_->changed,
                              std::min(deadline.at(), shared_->clock.now() + kAskEvery));
  }
  return ok();
}

Result<std::unique_ptr<Transport>> Meeting::hold(const Exchange& exchange, Deadline deadline) {
  Status outcome = listen();
  MUSTER_ASSIGN(told_, exchange(introduction(), deadline));
  // What went wrong has to be told before the others give up.
  const Duration left = (deadline.at() - clock().now()) / 2;
  const Deadline linked = Deadline::after(clock(), std::min(kLink, left));
  if (outcome) outcome = let_in(told_);
  if (outcome) outcome = connect(linked);
  if (outcome) outcome = await_others(Deadline(linked.at() + std::min(kSaid, left / 2)));
  if (outcome) tell_mapped();
  const Result<std::string> mine = outcome ? Result<std::string>("") : outcome.error();
  MUSTER_ASSIGN(const auto outcomes, share(exchange, group_, mine, deadline));
  for (std::int32_t rank = 0; rank < group_.size; ++rank)
    if (const std::string& text = outcomes[static_cast<std::size_t>(rank)]; !text.empty())
      return no_sense(group_, Rank{rank}, "nothing", text);
  return std::make_unique<TcpTransport>(shared_, options_);
}

}  // namespace

Result<std::unique_ptr<Transport>> create_tcp_transport(Group group, const TcpOptions& options,
                                                        const Exchange& exchange,
                                                        Deadline deadline) {
  return Meeting(group, options).hold(exchange, deadline);
}

}  // namespace muster::comm
