#include "muster/comm/engine/calls.h"

namespace muster::comm {

Status Calls::compare(std::uint64_t sequence, Rank from, const Signature& theirs) const {
  const Signature& mine = mine_[sequence % kKept];
  if (theirs.check == mine.check) return ok();
  return different_calls(group_, sequence, {group_.rank, mine}, {from, theirs}, kNoRank);
}

Status Calls::enter(std::uint64_t sequence, const Signature& mine) {
  const std::lock_guard lock(mutex_);
  entered_ = sequence;
  mine_[sequence % kKept] = mine;
  Status outcome = ok();
  while (!ahead_.empty() && ahead_.begin()->first.first <= sequence) {
    const auto first = ahead_.extract(ahead_.begin());
    if (outcome) outcome = compare(sequence, first.key().second, first.mapped());
  }
  return outcome;
}

// Messages carry the lower half of a sequence, from which ranks are never far apart.
Status Calls::heard(Rank from, std::uint32_t sequence, const Signature& theirs) {
  const std::lock_guard lock(mutex_);
  const auto ahead = static_cast<std::int32_t>(sequence - static_cast<std::uint32_t>(entered_));
  const std::uint64_t whole = entered_ + static_cast<std::uint64_t>(std::int64_t{ahead});
  if (ahead > 0) {
    ahead_.emplace(std::pair(whole, from), theirs);
    return ok();
  }
  const bool known = ahead > -static_cast<std::int32_t>(kKept);  // `ahead` may be any number
  return known ? compare(whole, from, theirs) : ok();
}

}  // namespace muster::comm
