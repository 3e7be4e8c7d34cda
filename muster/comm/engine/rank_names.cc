#include "muster/comm/engine/rank_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

namespace muster::comm {
namespace {

constexpr std::size_t kMostExplained = 16;  // ranks; of more only the culprit

}  // namespace

Rank RankNames::outside(Rank inside) const {
  const auto place = static_cast<std::size_t>(to_int(inside));
  return inside == kNoRank || place >= in_whole_.size() ? inside : in_whole_[place];
}

std::vector<Rank> RankNames::outside(std::vector<Rank> inside) const {
  for (Rank& rank : inside) rank = outside(rank);
  return inside;
}

Error RankNames::outside(Error why) const {
  why.message += legend(why.peer);
  why.peer = outside(why.peer);
  return why;
}

Error RankNames::inside(Error why) const {
  if (in_whole_.empty()) return why;
  const auto found = std::ranges::find(in_whole_, why.peer);
  why.peer = found == in_whole_.end() ? kNoRank : Rank(found - in_whole_.begin());
  return why;
}

std::string RankNames::legend(Rank culprit) const {
  std::vector<std::int32_t> in_part;
  std::vector<std::int32_t> in_whole;
  in_part.reserve(in_whole_.size());
  in_whole.reserve(in_whole_.size());
  for (const Rank rank : in_whole_) {
    in_part.push_back(static_cast<std::int32_t>(in_part.size()));
    in_whole.push_back(to_int(rank));
  }
  if (in_part == in_whole) return {};
  if (in_part.size() <= kMostExplained)
    return fmt::format(" (ranks {} of this part of the group are {} of the whole)",
                       fmt::join(in_part, ", "), fmt::join(in_whole, ", "));
  if (outside(culprit) == culprit) return {};
  return fmt::format(" (rank {} of this part of the group is {} of the whole)", to_int(culprit),
                     to_int(outside(culprit)));
}

}  // namespace muster::comm
