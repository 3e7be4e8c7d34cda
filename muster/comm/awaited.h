#pragma once
// For whom a rank waits inside a collective that it carries out: what tells, where all ranks are in
// the same one, who of them holds the others up. A value.

#include <cstdint>
#include <vector>

#include "muster/base/ids.h"

namespace muster::comm {

struct Awaited {
  enum class Over : std::uint8_t { kMemory, kConnections };  // that ranks have between them
  Over over = Over::kMemory;
  std::vector<Rank> ranks = {};  // none: it is at its own part, or has not begun it
  friend bool operator==(const Awaited&, const Awaited&) = default;
};

}  // namespace muster::comm
