#pragma once
// Point-to-point messages among the ranks of one group: all that schedules need of a network.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "muster/comm/cost.h"
#include "muster/comm/engine/engine.h"
#include "muster/comm/engine/inbox.h"
#include "muster/comm/engine/signature.h"

namespace muster::comm {

// How often a rank that waits for others while a group is built asks whether it still should.
inline constexpr Duration kAskEvery = std::chrono::milliseconds(20);

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const Topology& topology() const noexcept = 0;  // between which ranks messages are near
  virtual Inbox& inbox() noexcept = 0;                    // what peers sent to me

  // Sends without waiting for the peer. `bytes` stay untouched until they are settled.
  virtual Status post(Rank to, MessageId id, std::span<const std::byte> bytes) = 0;
  // Waits until all posted bytes have been read from their memory: those of collectives, or of
  // messages to one rank. kTimeout names whoever has not taken them; a failure that a peer has told
  // of ends it.
  virtual Status settle(Deadline deadline) = 0;
  virtual Status settle_messages(Rank to, Deadline deadline) = 0;

  // I have reached collective `sequence` and call `mine`. Whoever gets a message of it from me
  // learns that as well, and where two calls differ all are told (different_calls).
  virtual Status enter(std::uint64_t sequence, const Signature& mine) = 0;
  // Tells all peers what I call: I have waited for a while, perhaps for one who waits for me.
  virtual void announce() = 0;
  // Who has not reached it? May ask around for a moment.
  virtual std::vector<Rank> missing(std::uint64_t sequence) = 0;
  // For whom its collective waits now, or has waited when it failed. Any thread.
  virtual std::vector<Rank> awaited() {
    const auto from = inbox().awaited();
    return from ? std::vector{*from} : std::vector<Rank>();
  }

  virtual void fail(const Error& why) noexcept = 0;  // ends all takes here and at the peers
  virtual void stop(const Error& why) noexcept = 0;  // ends all takes here; I am leaving
  // After fail() or stop(): waits, briefly at most, until no posted bytes are read any more.
  virtual void drain() noexcept {}

  virtual Result<std::unique_ptr<Transport>> split(Group part, std::int32_t color,
                                                   const Exchange& exchange, Deadline deadline) = 0;
};

// An engine that plays schedules over a transport, the cheapest by `costs`, which are alike on all
// ranks.
std::unique_ptr<Engine> create_schedule_engine(Group group, std::unique_ptr<Transport> transport,
                                               const CostTable& costs);

// Ranks that have just met over a transport, for an engine of another kind over it.
struct Footing {
  Group group;
  std::unique_ptr<Transport> transport;
  const CostTable& costs;
  const Exchange& exchange;
  const std::function<bool()>& cancelled;  // may be empty
  Deadline deadline;
};
using EngineOver = std::function<Result<std::unique_ptr<Engine>>(Footing footing)>;

}  // namespace muster::comm
