#pragma once
// The roll call of a step: each slice's mark, which says what it computes, rides in the sum of the
// gradients; a slice that is missing, doubled or of other samples makes the total another one. So
// every rank knows before it updates anything that each sample of the batch is in the sum exactly
// once. Marks travel as limbs of 8 bits in floats: exact for up to 65,536 slices. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "muster/base/ids.h"
#include "muster/data/step_plan.h"

namespace muster::data {

inline constexpr std::size_t kRollLimbs = 6;
using RollLimbs = std::array<float, kRollLimbs>;

// 48 bits that depend on all of it (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
std::uint64_t slice_mark(std::int64_t epoch, SliceIndex slice, const Share& positions) noexcept;

// The sum of the marks of all slices of the step that begins at `cursor`.
std::uint64_t roll_of(const StepPlan& plan, const Cursor& cursor) noexcept;

RollLimbs limbs_of(std::uint64_t mark) noexcept;
// From limbs that were added up, slice by slice, in any order.
std::uint64_t total_of(std::span<const float, kRollLimbs> limbs) noexcept;

}  // namespace muster::data
