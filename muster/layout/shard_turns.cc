#include "muster/layout/shard_turns.h"

#include <algorithm>
#include <bit>
#include <map>

namespace muster::layout {

std::vector<ShardTurn> plan_turns(std::span<const Rank> owners, std::int32_t width,
                                  std::span<const std::int64_t> passes) {
  std::vector<std::vector<std::int32_t>> rounds;
  std::map<Rank, std::size_t> units_of;
  for (std::size_t unit = 0; unit < owners.size(); ++unit) {
    if (owners[unit] == kNoRank) continue;
    const std::size_t round = units_of[owners[unit]]++ / static_cast<std::size_t>(width);
    if (rounds.size() <= round) rounds.resize(round + 1);
    rounds[round].push_back(static_cast<std::int32_t>(unit));
  }
  std::vector<ShardTurn> turns;
  for (const auto& round : rounds)
    for (std::int32_t pass = 0;; ++pass) {
      ShardTurn turn{.pass = pass, .units = {}};
      std::ranges::copy_if(round, std::back_inserter(turn.units), [&](std::int32_t unit) {
        return passes[static_cast<std::size_t>(unit)] > pass;
      });
      if (turn.units.empty()) break;
      turns.push_back(std::move(turn));
    }
  return turns;
}

std::vector<std::int32_t> own_by_turn(std::span<const ShardTurn> turns,
                                      std::span<const Rank> owners, Rank rank) {
  std::vector<std::int32_t> counts;
  counts.reserve(turns.size());
  for (const ShardTurn& turn : turns)
    counts.push_back(
        static_cast<std::int32_t>(std::ranges::count_if(turn.units, [&](std::int32_t unit) {
          return owners[static_cast<std::size_t>(unit)] == rank;
        })));
  return counts;
}

std::int32_t sums_held(std::int32_t units, std::int32_t together) noexcept {
  std::int32_t most = 1;
  for (std::int32_t done = together; done < units; done += together)
    most = std::max(most, std::popcount(static_cast<std::uint32_t>(done)));
  return most;
}

}  // namespace muster::layout
