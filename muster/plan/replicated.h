#pragma once
// The price of ways in which every worker runs its slices through all blocks: data, sharded, and
// with its part of cut tensors, of shared sequences or of the experts. Pure.

#include "muster/plan/estimate.h"
#include "muster/plan/pricing.h"

namespace muster::plan {

Estimate price_replicated(const RankModel& model, const Way& way, const Hardware& hardware);

}  // namespace muster::plan
