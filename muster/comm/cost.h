#pragma once
// What a collective would take: its schedule is played with a clock for each rank, over links whose
// latency and rate a table gives, and the way that takes least is chosen. Ranks that do the same at
// the same time are played once, so that a ring of 10,000 takes milliseconds; in trees every rank
// is played, which takes seconds. Pure, thread-safe.

#include <cstdint>

#include "muster/comm/schedule.h"
#include "muster/comm/topology.h"

namespace muster::comm {

// A link between two ranks. A rank's own links share what it sends, and what it receives, whoever
// it is from or for; links between hosts, what their hosts do.
struct LinkCosts {
  double latency = 0;   // seconds from the first byte's start to its arrival
  double per_byte = 0;  // seconds
  friend bool operator==(const LinkCosts&, const LinkCosts&) = default;
};

// Seconds from sending a message of a few bytes until it has been received: what is commonly called
// the latency of a link. That of LinkCosts is what is left of it without what the message costs its
// sender and its receiver, and may be nothing.
constexpr double one_way(const LinkCosts& link, double per_message) noexcept {
  return link.latency + 2 * per_message;
}

// Alike on all ranks of a group, or they choose differently.
struct CostTable {
  LinkCosts inside;            // a host
  LinkCosts between;           // hosts
  double per_message = 0;      // seconds that a rank takes to send one, and to receive one
  double reduce_per_byte = 0;  // seconds
  double copy_per_byte = 0;    // seconds
  friend bool operator==(const CostTable&, const CostTable&) = default;
};

// Ranks are never quite in step: where a host hears from one host and then at once from another,
// the end of the one message meets the beginning of the other in its link, and both take longer
// than one behind the other would. As much of them as can meet takes so much longer: about what
// schedules with several neighbours took beside a ring, which has one, among 3 and 4 hosts whose
// links carry 100 Mb/s (bench/RESULTS.md, among hosts).
inline constexpr double kMeeting = 0.25;

// What moves a collective's bytes: memory of one process or host, or TCP, and between ranks of one
// host memory for what is large.
enum class Wire : std::uint8_t { kMemory, kTcp };

// Where nothing has been measured: of usual machines with Ethernet of 10 Gb/s.
CostTable default_costs(Wire wire) noexcept;

// Seconds from when all ranks begin until the last one is done. Blocks and shards count as if they
// were even. What is the same for all ranks but for a rotation, on hosts that differ, of more than
// 64 ranks, counts as if all hosts had as many ranks as the largest. Not for ordered sums.
double price(const Collective& collective, const Method& method, const Topology& topology,
             const CostTable& costs);

// The operation whose method all those get whose count has the same three leading bits, so that
// there are few to choose for however many sizes occur: one that is at least as large.
Collective representative(Collective collective) noexcept;

// How the operation runs: what `price` finds cheapest, of equals the first in methods_of(). A wish
// (of OpOptions) is granted where the operation has such a schedule, also in part: an inner or
// outer algorithm that is kAuto is chosen. Never kAuto.
Method choose_method(const Collective& collective, const Method& wish, const Topology& topology,
                     const CostTable& costs);

}  // namespace muster::comm
