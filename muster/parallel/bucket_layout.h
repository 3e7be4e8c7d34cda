#pragma once
// The buckets of the exchange, laid out below libtorch (layout/bucket_layout.h), so that the
// planner counts the same bytes.

#include "muster/layout/bucket_layout.h"

namespace muster::parallel {

using layout::BucketLayout;
using layout::BucketSizes;
using layout::BucketSlot;
using layout::plan_buckets;

}  // namespace muster::parallel
