#pragma once
// How a group divides, over its own operations.

#include <vector>

#include "muster/comm/engine/engine.h"

namespace muster::comm {

inline constexpr Duration kSplitTimeout = std::chrono::seconds(30);

struct Division {
  Group part;                 // the group this rank will be in
  std::vector<Rank> members;  // its ranks in the group divided
};

// Collective: who has my colour, ordered by key, then by rank.
Result<Division> divide_group(Communicator& whole, int color, int key);

// An exchange over all of `whole` that gives the answers of the part alone. `whole` and the clock
// outlive it.
Exchange exchange_within(Communicator& whole, const Division& division, const Clock& clock);

}  // namespace muster::comm
