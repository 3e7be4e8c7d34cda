#pragma once
// Where each gradient lies in the buckets that are reduced between workers. Buckets are filled in
// the order in which backward finishes parameters (last layer first), so that the first can be
// reduced while the others are still being computed. A small first bucket starts the traffic early
// (Li et al., "PyTorch Distributed", VLDB 2020). Pure; the same on every rank.

#include <cstdint>
#include <span>
#include <vector>

#include "muster/base/dtype.h"

namespace muster::layout {

struct BucketSlot {
  std::int32_t bucket = 0;
  std::int64_t offset = 0;  // in floats from the bucket's begin; a multiple of 16 (64 bytes)
  std::int64_t count = 0;   // in floats
};

struct BucketLayout {
  std::vector<BucketSlot> slots;       // by slot number, as given to plan_buckets
  std::vector<std::int64_t> sizes;     // floats in each bucket
  std::vector<std::int32_t> slots_in;  // how many slots each bucket holds
  std::vector<DType> dtypes;           // in which each bucket is summed: f32, or one of 16 bits
  std::int64_t total() const noexcept;
};

struct BucketSizes {
  std::int64_t first_bytes;
  std::int64_t bytes;
  bool first_slot_alone = false;  // it shares its bucket with no other
  DType dtype = DType::kF32;      // of all but the first slot, which is exact
};

// `counts`: floats of each slot, in the order in which they become ready. A slot larger than a
// bucket gets one of its own; so does the first slot where the others are not f32. `begins`: slots
// that begin a bucket whatever there is room for, ascending.
BucketLayout plan_buckets(std::span<const std::int64_t> counts, BucketSizes sizes,
                          std::span<const std::int32_t> begins = {});

}  // namespace muster::layout
