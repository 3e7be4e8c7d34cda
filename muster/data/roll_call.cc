#include "muster/data/roll_call.h"

namespace muster::data {
namespace {

constexpr std::uint64_t kLimb = 0xFF;

std::uint64_t mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

}  // namespace

std::uint64_t slice_mark(std::int64_t epoch, SliceIndex slice, const Share& positions) noexcept {
  std::uint64_t state = mix(static_cast<std::uint64_t>(epoch));
  state = mix(state ^ static_cast<std::uint64_t>(to_int(slice)));
  state = mix(state ^ static_cast<std::uint64_t>(positions.begin));
  return mix(state ^ static_cast<std::uint64_t>(positions.end)) >> 16U;
}

std::uint64_t roll_of(const StepPlan& plan, const Cursor& cursor) noexcept {
  const Share step = plan.step(cursor);
  std::uint64_t total = 0;
  for (std::int32_t i = 0; i < plan.options().slices; ++i)
    total += slice_mark(cursor.epoch, SliceIndex{i}, plan.slice(step, SliceIndex{i}));
  return total;
}

RollLimbs limbs_of(std::uint64_t mark) noexcept {
  RollLimbs limbs{};
  for (float& limb : limbs) {
    limb = static_cast<float>(mark & kLimb);
    mark >>= 8U;
  }
  return limbs;
}

std::uint64_t total_of(std::span<const float, kRollLimbs> limbs) noexcept {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kRollLimbs; ++i)
    total += static_cast<std::uint64_t>(limbs[i]) << (8U * i);
  return total;
}

}  // namespace muster::data
