#pragma once
// In which order the ranks tell each other their units' gradients (ZeRO stage 2): in turns, of
// units that all ranks compute at about the same time. Pure; the same on every rank.

#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/ids.h"

namespace muster::layout {

struct ShardTurn {
  std::int32_t pass = 0;
  std::vector<std::int32_t> units;  // that have such a pass, ascending
  friend bool operator==(const ShardTurn&, const ShardTurn&) = default;
};

// Each rank's units, in their order, `width` of them a turn, pass after pass. `owners`, `passes`:
// by unit; those of kNoRank are others' business.
std::vector<ShardTurn> plan_turns(std::span<const Rank> owners, std::int32_t width,
                                  std::span<const std::int64_t> passes);

// How many units of a rank are in each turn.
std::vector<std::int32_t> own_by_turn(std::span<const ShardTurn> turns,
                                      std::span<const Rank> owners, Rank rank);

// The most sums that an owner of a shard holds between two turns of `together` neighbouring units.
std::int32_t sums_held(std::int32_t units, std::int32_t together) noexcept;

}  // namespace muster::layout
