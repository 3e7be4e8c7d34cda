#pragma once
// Evaluations of slices that ranks shared out, as one.

#include <span>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

// Collective. A slice is zero on every rank but one. Adds up in the order of slices: the same bits
// at any size.
Result<EvaluationTotals> combine_totals(comm::Communicator& communicator,
                                        std::span<const EvaluationTotals> by_slice,
                                        comm::OpOptions op);

}  // namespace muster::parallel
