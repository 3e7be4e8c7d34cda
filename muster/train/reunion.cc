#include "muster/train/reunion.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "muster/train/neighbour_copy.h"

namespace muster::train {
namespace {

// Since when states are the same: a step that was taken again is not the one before.
struct Place {
  std::int64_t rollbacks = 0;
  Step committed{0};
  auto operator<=>(const Place&) const = default;
};

Place place_of(const Standing& standing) { return {standing.rollbacks, standing.committed}; }

class Reunited {
 public:
  Reunited(const std::vector<Standing>& standings, const std::vector<std::int32_t>& parts)
      : standings_(standings), parts_(parts) {}

  // The latest first; what was gone back from counts no more.
  std::vector<Place> places() const {
    std::set<Place> found;
    for (const Standing& standing : standings_)
      if (standing.whole) found.insert(place_of(standing));
    std::vector<Place> latest(found.rbegin(), found.rend());
    std::erase_if(latest,
                  [&](const Place& place) { return place.rollbacks != latest.front().rollbacks; });
    return latest;
  }

  bool is_at(std::size_t rank, const Place& place) const {
    return standings_[rank].whole && place_of(standings_[rank]) == place;
  }

  // Who has at `place` what `rank` needs: itself, or else the first.
  std::optional<Rank> source_of(std::size_t rank, const Place& place) const {
    if (is_at(rank, place)) return rank_of(rank);
    for (std::size_t other = 0; other < parts_.size(); ++other)
      if (parts_[other] == parts_[rank] && is_at(other, place)) return rank_of(other);
    const Rank keeper = keeper_of(rank_of(rank), static_cast<std::int32_t>(parts_.size()));
    if (keeps_at(keeper, place)) return keeper;
    return std::nullopt;
  }

  bool keeps_at(Rank keeper, const Place& place) const {
    const auto rank = static_cast<std::size_t>(to_int(keeper));
    return is_at(rank, place) && standings_[rank].keeps;
  }

  std::vector<Rank> missing_at(const Place& place) const {
    std::vector<Rank> missing;
    for (std::size_t rank = 0; rank < parts_.size(); ++rank)
      if (!source_of(rank, place)) missing.push_back(rank_of(rank));
    return missing;
  }

  void gather_at(const Place& place, Reunion& reunion) const {
    std::optional<std::size_t> leader;
    for (std::size_t rank = 0; rank < parts_.size(); ++rank) {
      const Rank source = *source_of(rank, place);
      reunion.sources.push_back(source);
      if (parts_[static_cast<std::size_t>(to_int(source))] != parts_[rank])
        reunion.restored.push_back(rank_of(rank));
      if (is_at(rank, place) && (!leader || standings_[rank].done() > standings_[*leader].done()))
        leader = rank;
    }
    reunion.leader = rank_of(*leader);
    reunion.same = std::ranges::all_of(standings_, [&](const Standing& standing) {
      return standing.whole && place_of(standing) == place &&
             standing.done() == standings_[*leader].done() &&
             standing.paces == standings_[*leader].paces;
    });
  }

 private:
  static Rank rank_of(std::size_t rank) { return Rank{static_cast<std::int32_t>(rank)}; }

  const std::vector<Standing>& standings_;
  const std::vector<std::int32_t>& parts_;
};

}  // namespace

Reunion decide_reunion(const std::vector<Standing>& standings,
                       const std::vector<std::int32_t>& parts) {
  const Reunited ranks(standings, parts);
  Reunion reunion;
  for (const Standing& standing : standings) {
    reunion.furthest = std::max(reunion.furthest, standing.committed);
    reunion.rollbacks = std::max(reunion.rollbacks, standing.rollbacks);
    reunion.idle = std::max(reunion.idle, standing.idle);
  }
  const std::vector<Place> places = ranks.places();
  for (const Place& place : places) {
    if (!ranks.missing_at(place).empty()) continue;
    ranks.gather_at(place, reunion);
    return reunion;
  }
  // A place that nobody is at is one without any part.
  reunion.missing = ranks.missing_at(places.empty() ? Place{-1, Step{0}} : places.front());
  return reunion;
}

std::string name_holders(const std::vector<LostPart>& parts, bool with_standbys) {
  std::string names =
      fmt::format("{}{}", with_standbys ? "rank" : "worker", parts.size() == 1 ? "" : "s");
  const char* separator = " ";
  for (const LostPart& part : parts) {
    names += std::exchange(separator, ", ");
    if (!with_standbys) {
      names += std::to_string(part.worker);
      continue;
    }
    const bool is_standby = part.worker != to_int(part.rank);
    names += fmt::format("{} (now worker {}{})", to_int(part.rank), part.worker,
                         is_standby ? ", a standby" : "");
  }
  return names;
}

}  // namespace muster::train
