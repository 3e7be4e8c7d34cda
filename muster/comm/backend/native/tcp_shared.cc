#include "muster/comm/backend/native/tcp_shared.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "muster/comm/engine/errors.h"

namespace muster::comm {
namespace {

// The frames of one connection, on the network's thread.
class PeerReceiver final : public net::Receiver {
 public:
  PeerReceiver(std::weak_ptr<TcpShared> shared, Rank peer)
      : shared_(std::move(shared)), peer_(peer) {}

  // Where frames come in before the sender has said who it is.
  void set_connection(std::weak_ptr<net::Connection> connection) {
    connection_ = std::move(connection);
  }

  Result<std::optional<std::span<std::byte>>> on_header(const net::FrameHeader& header) override {
    // What comes for a group that is gone is dropped: closing would cost what has yet to leave.
    if (const auto shared = shared_.lock()) MUSTER_TRY(check(*shared, header));
    owner_ = std::make_shared_for_overwrite<std::byte[]>(header.length);
    payload_ = {owner_.get(), header.length};
    return std::optional(payload_);
  }

  void on_frame(const net::FrameHeader& header) override {
    const auto shared = shared_.lock();
    if (!shared) return;
    switch (header.kind) {
      case kHello:
        return meet(*shared, header.sender);
      case kCollective:
        return deliver(*shared, {header.tag, header.sequence});
      case kCall:
        return shared->heard(peer_, header.tag, payload_);
      case kMessage:
        return shared->inbox.deliver(peer_,
                                     {MessageId::kPointToPoint | header.tag, header.sequence},
                                     payload_, std::move(owner_));
      case kCollectiveHere:
        return deliver_from_memory(*shared, {header.tag, header.sequence});
      case kMessageHere:
        return deliver_from_memory(*shared,
                                   {MessageId::kPointToPoint | header.tag, header.sequence});
      case kMapped:
        return note_mapped(*shared);
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
                    fmt::format("[comm/network] rank {} closed its connection in "
                                "generation {}: {}",
                                to_int(peer_), to_int(shared->group.generation), why.message),
                    peer_));
  }

 private:
  Status check(const TcpShared& shared, const net::FrameHeader& header) const {
    const auto refuse = [&](std::string_view what) {
      return fail(
          ErrorCode::kInvalid,
          fmt::format("[comm/network] refused a frame of kind {} from rank {} in generation {}: {}",
                      header.kind, to_int(header.sender), to_int(header.generation), what));
    };
    if (header.generation != shared.group.generation) return refuse("another generation");
    if (header.context != shared.context) return refuse("another group");
    if (header.kind < kHello || header.kind > kLastTcpFrame) return refuse("an unknown kind");
    if ((peer_ == kNoRank) != (header.kind == kHello)) return refuse("out of turn");
    const bool member = to_int(header.sender) > to_int(shared.group.rank) &&
                        to_int(header.sender) < shared.group.size;
    if (peer_ == kNoRank && !member) return refuse("no rank that connects to this one");
    if (peer_ != kNoRank && header.sender != peer_) return refuse("another sender");
    if (header.kind == kFailure && !names_a_failure(shared.group, header))
      return refuse("it names no error, or nobody of this group");
    const bool here = header.kind == kCollectiveHere || header.kind == kMessageHere;
    if (here && shared.payloads_of(peer_) == nullptr)
      return refuse("its memory is not mapped here");
    const bool collective = header.kind == kCollective || header.kind == kCollectiveHere;
    const bool signs = header.kind == kCall || (collective && header.sequence == 0);
    const std::size_t least = (signs ? sizeof(Signature) : 0) + (here ? sizeof(PayloadPlace) : 0);
    if (header.length < least) return refuse("it does not say what it is of");
    return ok();
  }

  static bool names_a_failure(const Group& group, const net::FrameHeader& header) {
    const auto culprit = static_cast<std::int32_t>(header.sequence);
    return header.tag <= static_cast<std::uint32_t>(ErrorCode::kInternal) &&
           culprit >= to_int(kNoRank) && culprit < group.size;
  }

  void deliver(TcpShared& shared, MessageId id) {
    if (is_first(id)) shared.heard(peer_, static_cast<std::uint32_t>(id.channel), payload_);
    shared.inbox.deliver(peer_, id, payload_.subspan(is_first(id) ? sizeof(Signature) : 0),
                         std::move(owner_));
  }

  void deliver_from_memory(TcpShared& shared, MessageId id) {
    PayloadPlace where;
    std::memcpy(&where, payload_.data() + (is_first(id) ? sizeof(Signature) : 0), sizeof(where));
    auto payload = shared.payloads_of(peer_)->take(where);
    if (!payload) {
      return shared.fail({ErrorCode::kInvalid,
                          fmt::format("[comm/network] rank {} in generation {}: {}", to_int(peer_),
                                      to_int(shared.group.generation), payload.error().message),
                          peer_});
    }
    if (is_first(id)) shared.heard(peer_, static_cast<std::uint32_t>(id.channel), payload_);
    shared.inbox.deliver(peer_, id, payload->bytes, std::move(payload->owner));
  }

  void note_mapped(TcpShared& shared) {
    const std::lock_guard lock(shared.mutex);
    shared.reads_mine[static_cast<std::size_t>(to_int(peer_))] = true;
  }

  void meet(TcpShared& shared, Rank sender) {
    peer_ = sender;
    if (auto connection = connection_.lock()) shared.connected(sender, std::move(connection));
  }

  void answer(TcpShared& shared) {
    if (const auto connection = shared.connection(peer_))
      connection->send(shared.header(kProgress, shared.entered), {});
  }

  void note_progress(TcpShared& shared, std::uint32_t reached) {
    const std::lock_guard lock(shared.mutex);
    shared.progress[static_cast<std::size_t>(to_int(peer_))] = reached;
    shared.changed.notify_all();
  }

  void note_failure(TcpShared& shared, const net::FrameHeader& header) {
    const std::string text(reinterpret_cast<const char*>(payload_.data()), payload_.size());
    shared.inbox.fail(told_by(peer_, {static_cast<ErrorCode>(header.tag), text,
                                      Rank{static_cast<std::int32_t>(header.sequence)}}));
    const std::lock_guard lock(shared.mutex);
    shared.gave_up[static_cast<std::size_t>(to_int(peer_))] = true;
    shared.changed.notify_all();
  }

  const std::weak_ptr<TcpShared> shared_;
  Rank peer_;  // kNoRank until its hello
  std::weak_ptr<net::Connection> connection_;
  std::span<std::byte> payload_;  // of the frame that comes
  std::shared_ptr<std::byte[]> owner_;
};

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::vector<Rank> TcpShared::furthest_behind(std::uint32_t sequence) const {
  std::vector<Rank> ranks;
  std::int64_t furthest = 0;
  for (std::size_t rank = 0; rank < progress.size(); ++rank) {
    // Whoever gave up before this rank did was not the one it waited for.
    if (rank == static_cast<std::size_t>(to_int(group.rank)) || gave_up[rank]) continue;
    const auto answer = progress[rank];
    const std::int64_t behind = answer ? std::int64_t{static_cast<std::int32_t>(sequence - *answer)}
                                       : std::numeric_limits<std::int64_t>::max();
    if (behind <= 0 || behind < furthest) continue;
    if (behind > furthest) ranks.clear();
    furthest = behind;
    ranks.push_back(Rank{static_cast<std::int32_t>(rank)});
  }
  return ranks;
}

// What runs here notices after nobody else can be the first any more.
bool TcpShared::begin_failure(const Error& why) noexcept {
  {
    const std::lock_guard lock(mutex);
    if (failure) return false;
    failure = why;
    changed.notify_all();
  }
  inbox.fail(why);
  return true;
}

void TcpShared::fail(const Error& why) noexcept {
  if (!begin_failure(why)) return;
  const auto until = Deadline::after(clock, kFarewell);
  // A rank of another group means nothing in this one.
  const Rank culprit = to_int(why.peer) < group.size ? why.peer : kNoRank;
  const auto news = header(kFailure, static_cast<std::uint32_t>(why.code),
                           static_cast<std::uint32_t>(to_int(culprit)));
  const auto text = std::make_shared<const std::vector<std::byte>>(bytes_of(why.message));
  for_connections([&](net::Connection& connection) {
    {
      const std::lock_guard lock(mutex);
      ++untold;
    }
    connection.send(news, {*text}, [weak = weak_from_this(), text](const Status&) {
      const auto shared = weak.lock();
      if (!shared) return;
      const std::lock_guard lock(shared->mutex);
      --shared->untold;
      shared->changed.notify_all();
    });
    connection.finish(until);
  });
}

void TcpShared::await_told(Deadline until) {
  std::unique_lock lock(mutex);
  while (untold > 0 && !until.passed(clock)) clock.wait_until(lock, changed, until.at());
}

void TcpShared::heard(Rank peer, std::uint32_t sequence, std::span<const std::byte> payload) {
  Signature theirs;
  std::memcpy(&theirs, payload.data(), sizeof(theirs));
  if (const Status same = calls.heard(peer, sequence, theirs); !same) fail(same.error());
}

void start_reading(const std::shared_ptr<net::Connection>& connection,
                   const std::shared_ptr<TcpShared>& shared, Rank peer) {
  auto receiver = std::make_shared<PeerReceiver>(shared, peer);
  receiver->set_connection(connection);
  connection->start(std::move(receiver));
}

}  // namespace muster::comm
