#pragma once
// What one rank's TCP transport shares with the callbacks on the network's thread, and who receives
// the frames there.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "muster/comm/backend/native/host_payloads.h"
#include "muster/comm/communicator.h"
#include "muster/comm/engine/calls.h"
#include "muster/comm/engine/inbox.h"
#include "muster/comm/topology.h"
#include "muster/net/network.h"

namespace muster::comm {

// Frames of comm (net/frame.h): what `tag` and `sequence` of the header mean.
enum TcpFrame : net::FrameKind {
  kHello = net::kFirstCommFrame,  // the first from whoever connected
  // tag: collective, sequence: message in it; the first of them to a peer begins with the sender's
  // Signature
  kCollective,
  kCall,            // tag: collective, payload: the sender's Signature
  kMessage,         // tag: the user's, sequence: how many went before
  kProbe,           // "how far are you?"
  kProgress,        // tag: the collective reached
  kFailure,         // tag: error code, sequence: culprit, payload: text
  kMapped,          // the sender reads the receiver's HostPayloads
  kCollectiveHere,  // as kCollective and kMessage, with a PayloadPlace of the sender's memory in
  kMessageHere,     // place of the bytes
};
inline constexpr net::FrameKind kLastTcpFrame = kMessageHere;

// What the transport and the callbacks on the network's thread share. Thread-safe.
struct TcpShared : std::enable_shared_from_this<TcpShared> {
  TcpShared(Group g, std::uint32_t c, Topology t, Clock& clock_)
      : group(g),
        context(c),
        topology(std::move(t)),
        clock(clock_),
        inbox(g.size, clock_),
        calls(g),
        connections(static_cast<std::size_t>(g.size)),
        progress(static_cast<std::size_t>(g.size)),
        gave_up(static_cast<std::size_t>(g.size)),
        reads_mine(static_cast<std::size_t>(g.size)),
        leaving(static_cast<std::size_t>(g.size)) {}

  const Group group;
  const std::uint32_t context;  // tells this group's frames from another's
  const Topology topology;      // who has memory for whom
  Clock& clock;
  Inbox inbox;
  Calls calls;
  std::atomic<std::uint32_t> entered{0};
  // Of ranks on this host, by rank; this rank's own is what it sends through. Set before frames are
  // read.
  std::vector<std::shared_ptr<HostPayloads>> payloads;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<net::Connection>> connections;  // guarded by mutex, as all below
  std::vector<std::optional<std::uint32_t>> progress;         // answers to the last probe
  std::vector<bool> gave_up;                                  // told me of a failure
  std::vector<bool> reads_mine;                               // said kMapped
  struct Leaving {                                            // pieces posted, not yet handed over
    std::size_t of_collectives = 0;
    std::size_t of_messages = 0;
  };
  std::vector<Leaving> leaving;  // by peer
  std::optional<Rank> settling;  // whose bytes of collectives settle() waits for
  struct Answer {                // of a rank that this one connects to
    Rank rank;
    Result<std::shared_ptr<net::Connection>> made;
  };
  std::vector<Answer> answers;  // not yet looked at
  std::optional<Error> failure;
  std::size_t untold = 0;  // peers to whom the news of it has yet to be handed over

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

  HostPayloads* payloads_of(Rank rank) const noexcept {
    const auto index = static_cast<std::size_t>(to_int(rank));
    return index < payloads.size() ? payloads[index].get() : nullptr;
  }

  void connected(Rank rank, std::shared_ptr<net::Connection> connection) {
    const std::lock_guard lock(mutex);
    connections[static_cast<std::size_t>(to_int(rank))] = std::move(connection);
    changed.notify_all();
  }

  void answered(Answer answer) {
    const std::lock_guard lock(mutex);
    answers.push_back(std::move(answer));
    changed.notify_all();
  }

  std::optional<Rank> unconnected() const {  // mutex is held
    for (std::int32_t rank = 0; rank < group.size; ++rank)
      if (rank != to_int(group.rank) && !connections[static_cast<std::size_t>(rank)])
        return Rank{rank};
    return std::nullopt;
  }

  void handed_over(Rank to, std::size_t Leaving::*of) {
    const std::lock_guard lock(mutex);
    --(leaving[static_cast<std::size_t>(to_int(to))].*of);
    changed.notify_all();
  }

  std::optional<Rank> first_leaving(std::size_t Leaving::*of) const {  // mutex is held
    for (std::size_t rank = 0; rank < leaving.size(); ++rank)
      if (leaving[rank].*of > 0) return Rank{static_cast<std::int32_t>(rank)};
    return std::nullopt;
  }

  // By the answers to the last probe, of those that have not come to `sequence`: who does not
  // answer at all, or else who is furthest behind. Any other may be waiting for these itself.
  std::vector<Rank> furthest_behind(std::uint32_t sequence) const;  // mutex is held

  // Ends everything here with `why`, and tells the peers. Only the first time counts.
  void fail(const Error& why) noexcept;
  bool begin_failure(const Error& why) noexcept;  // whether it is the first time

  // Waits until the network has the news of the failure, or until `until`.
  void await_told(Deadline until);

  // What `peer` calls, from the beginning of a payload.
  void heard(Rank peer, std::uint32_t sequence, std::span<const std::byte> payload);

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

// How long what was sent, the news of a failure last, may take to leave.
inline constexpr Duration kFarewell = std::chrono::seconds(1);
// How long whoever leaves waits for its own network to take that news: what follows may end it. A
// peer that reads nothing costs as much.
inline constexpr Duration kHandOver = std::chrono::milliseconds(50);

// Starts to read. `peer`: who is at the other end; kNoRank: whoever says hello first.
void start_reading(const std::shared_ptr<net::Connection>& connection,
                   const std::shared_ptr<TcpShared>& shared, Rank peer);

}  // namespace muster::comm
