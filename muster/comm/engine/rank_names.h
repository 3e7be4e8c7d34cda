#pragma once
// Errors name ranks of the whole group, of which a communicator may be a part with ranks of its
// own. Thread-safe.

#include <string>
#include <utility>
#include <vector>

#include "muster/base/ids.h"
#include "muster/base/result.h"

namespace muster::comm {

class RankNames {
 public:
  // By rank of the part; empty: it is the whole group.
  explicit RankNames(std::vector<Rank> in_whole) : in_whole_(std::move(in_whole)) {}

  Rank outside(Rank inside) const;
  std::vector<Rank> outside(std::vector<Rank> inside) const;
  // Its text goes on to count ranks in the part, and says who they are.
  Error outside(Error why) const;
  // kNoRank: of somebody who is not in the part.
  Error inside(Error why) const;

 private:
  std::string legend(Rank culprit) const;

  const std::vector<Rank> in_whole_;
};

}  // namespace muster::comm
