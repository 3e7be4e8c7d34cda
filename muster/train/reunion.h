#pragma once
// How a generation begins where each rank has a part of the state, which is nobody else's, or only
// that of few others: a pure decision that each of them takes alike. Whoever comes anew has none,
// but its neighbour may have kept it (neighbour_copy.h).
// All go on after the latest step of which every part is with somebody; where there is no such step
// all go back to the last checkpoint.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/ids.h"
#include "muster/train/course.h"

namespace muster::train {

struct Reunion {
  std::vector<Rank> missing;   // whose parts nobody has: all go back to the last checkpoint
  Rank leader{0};              // else: whose position counts
  std::vector<Rank> sources;   // by rank: whose tensors it gets; itself: it has them
  std::vector<Rank> restored;  // those that get what their source has kept of them
  bool same = false;           // all stand where the leader does, and have what they need
  Step furthest{0};            // that anybody has committed
  std::int64_t rollbacks = 0;  // the most of anybody
  Duration idle{};             // likewise

  bool goes_back() const noexcept { return !missing.empty(); }
  friend bool operator==(const Reunion&, const Reunion&) = default;
};

// `parts`: which one each rank has. Both by rank. Ranks with the same part hold the same tensors,
// wherever they stand alike.
Reunion decide_reunion(const std::vector<Standing>& standings,
                       const std::vector<std::int32_t>& parts);

// A part that nobody has, and who has the rank now to which it belongs.
struct LostPart {
  Rank rank{0};
  std::int32_t worker = 0;
};

// Who held these, for a person: "worker 2", who comes anew. Where a rank may have passed to a
// standby, by rank: "rank 1 (now worker 2, a standby)", since that worker never held the part.
std::string name_holders(const std::vector<LostPart>& parts, bool with_standbys);

}  // namespace muster::train
