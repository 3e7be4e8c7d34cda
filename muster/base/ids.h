#pragma once
// Strong types for the numbers that are never mixed up.

#include <compare>
#include <cstdint>
#include <type_traits>

namespace muster {

enum class Rank : std::int32_t {};         // position in one group, [0, size)
enum class Generation : std::uint64_t {};  // one agreed membership; never reused within a run
enum class Step : std::int64_t {};         // committed optimizer steps
enum class SliceIndex : std::int32_t {};   // a virtual worker: a fixed slice of every global batch

inline constexpr Rank kNoRank{-1};

template <class Id>
requires std::is_enum_v<Id>
constexpr std::underlying_type_t<Id> to_int(Id id) noexcept {
  return static_cast<std::underlying_type_t<Id>>(id);
}

constexpr Step next(Step step) noexcept { return Step{to_int(step) + 1}; }

}  // namespace muster
