#pragma once
// The price of ways in which each worker holds some of the blocks, or its part of their tensors, or
// of their sequences, or of the experts: the stages of one replica, one after the other. Pure.

#include "muster/plan/estimate.h"
#include "muster/plan/pricing.h"

namespace muster::plan {

// kInvalid where the blocks do not fill the stages, or the schedule is none.
Result<Estimate> price_pipelined(const RankModel& model, const Way& way, const Hardware& hardware);

}  // namespace muster::plan
