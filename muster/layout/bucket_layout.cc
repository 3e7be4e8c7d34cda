#include "muster/layout/bucket_layout.h"

#include <algorithm>
#include <numeric>

#include "muster/base/round_up.h"

namespace muster::layout {
namespace {

constexpr std::int64_t kAlignment = 16;  // floats: one cache line, so no two slots share one

constexpr std::int64_t padded(std::int64_t count) { return round_up(count, kAlignment); }

}  // namespace

std::int64_t BucketLayout::total() const noexcept {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

BucketLayout plan_buckets(std::span<const std::int64_t> counts, BucketSizes sizes,
                          std::span<const std::int32_t> begins) {
  BucketLayout layout;
  const bool alone = sizes.first_slot_alone || sizes.dtype != DType::kF32;
  const std::size_t small = alone ? 2 : 1;  // buckets
  const auto each = static_cast<std::int64_t>(size_of(sizes.dtype));
  for (const std::int64_t count : counts) {
    const std::int64_t limit = layout.sizes.size() <= small ? sizes.first_bytes : sizes.bytes;
    const bool full =
        layout.sizes.empty() || (alone && layout.slots.size() == 1) ||
        std::ranges::binary_search(begins, static_cast<std::int32_t>(layout.slots.size())) ||
        (layout.sizes.back() > 0 && (layout.sizes.back() + padded(count)) * each > limit);
    if (full) {
      layout.dtypes.push_back(layout.slots.empty() ? DType::kF32 : sizes.dtype);
      layout.sizes.push_back(0);
      layout.slots_in.push_back(0);
    }
    layout.slots.push_back(
        {static_cast<std::int32_t>(layout.sizes.size()) - 1, layout.sizes.back(), count});
    layout.sizes.back() += padded(count);
    ++layout.slots_in.back();
  }
  return layout;
}

}  // namespace muster::layout
