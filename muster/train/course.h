#pragma once
// How a generation begins: from where its ranks stand to what they do, as a pure decision that each
// of them takes alike. The last committed step is the latest that any of them has applied: a rank
// applies a step only once every rank's part is in the sum, so whoever lacks it lacks only the
// update, and gets the state of one that has it. If nobody is ahead, the step that failed is
// finished: each rank keeps what it had summed, and only the slices of those who are gone are
// computed again. Newcomers, who have no state at all, get it while the others train on, unless all
// have to wait for somebody's copy anyway. Where nobody has a state all go back to the last
// checkpoint.

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/ids.h"

namespace muster::train {

struct Standing {
  Step committed{0};
  bool settled = true;           // see Position
  bool whole = true;             // false: a newcomer, or a copy of the state that broke off
  std::optional<Step> kept;      // whose own sums this rank still has
  std::uint64_t assignment = 0;  // fingerprint of who computed which slice in it
  std::uint64_t paces = 0;       // fingerprint of what this rank knows of everybody's pace

  // How often it went back to a step where all ranks were the same; what was committed later and is
  // not known to be right does not count against that.
  std::int64_t rollbacks = 0;

  Duration idle{};     // since it last trained
  bool keeps = false;  // what the rank before it had after the committed step (neighbour_copy.h)
  bool evaluated = false;  // after the committed step
  std::uint64_t data = 0;  // fingerprint of what it trains on

  // What of that which is due after the committed step is done: more is further.
  std::pair<bool, bool> done() const noexcept { return {settled, evaluated}; }

  static constexpr std::size_t kWords = 11;
  std::array<std::int64_t, kWords> pack() const noexcept;  // for the wire
  static Standing unpack(const std::int64_t* words) noexcept;
  friend bool operator==(const Standing&, const Standing&) = default;
};

struct Course {
  Rank leader{0};              // whose state counts
  bool copies = false;         // somebody lacks it, and all wait until everybody has it
  std::int32_t newcomers = 0;  // so many, the last ranks, get it beside the training
  bool finishes = false;       // the step after the committed one goes on from the kept sums
  bool forgets = false;        // ranks know different paces; those of the leader are not copied
  bool goes_back = false;      // nobody has a whole state: all go back to the last checkpoint
  friend bool operator==(const Course&, const Course&) = default;
};

Course decide_course(const std::vector<Standing>& standings);  // by rank

}  // namespace muster::train
