#pragma once
// Who waits for whom: the waits-for graph of a group's ranks, from their flight records. An edge
// goes from a rank whose thread blocks for a message to the other end of it, and from one that
// blocks in a collective to each that has not called it; a rank with a lane that computes waits for
// nobody. All that a rank waits for has to come (the AND model of Chandy, Misra and Haas, ACM TOCS
// 1983), so a cycle is a deadlock, and whoever is waited for and waits for nobody holds the others
// up. Plain data; pure.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"
#include "muster/comm/wrap/flight_analysis.h"

namespace muster::comm {

struct Wait {
  enum class Kind : std::uint8_t { kReceive, kSend, kCollective };
  Rank from{0};  // waits
  Rank to{0};    // for this one
  Kind kind = Kind::kReceive;
  bool of_all = false;   // a collective of the whole group
  FlightCall call = {};  // has `waited`
};

struct WaitFinding {
  enum class Kind : std::uint8_t {
    kCulprit,     // `ranks` waits for nobody and does not get on
    kSilent,      // of `ranks` there is no record
    kNotArrived,  // the first of `waits` is for `ranks`, which has long done its part
    kAllIn,       // `ranks` are all in one collective of theirs, the `cycle`
    kDeadlock     // `ranks` wait for each other: the `cycle`
  };
  Kind kind = Kind::kCulprit;
  std::vector<Rank> ranks = {};
  std::vector<Wait> cycle = {};
  std::vector<Wait> waits = {};  // that lead to `ranks`: one of each rank, the nearest first
  // Of ranks.front(): "has been in forward of slice 3 for 12.0 s"; kAllIn: why none gets on.
  std::string state = {};
};

// Of the newest generation among `records`: by whom or what everybody who waits is held up.
// A message that was sent less than a few seconds ago is on its way, and its receiver gets on.
std::vector<WaitFinding> analyse_waits(const std::vector<FlightRecord>& records);

// "rank 3 has waited 12.0 s for rank 2 (receive, activation of micro-batch 5, stage 1 → 2), which
// waits for rank 1 (…), which has been in forward of slice 5, chunk 1 for 12.1 s"
std::string describe(const WaitFinding& finding, const RankWording& names = {});

Duration longest_wait(const WaitFinding& finding);

// All of it, once: what collectives of the whole group alone show as analyse() has it; where those
// that it misses wait themselves, the chains instead.
struct HeldUp {
  std::vector<FlightFinding> calls;
  std::vector<WaitFinding> waits;
};
HeldUp find_held_up(const std::vector<FlightRecord>& records);

}  // namespace muster::comm
