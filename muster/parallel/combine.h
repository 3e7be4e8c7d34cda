#pragma once
// What ranks found each for themselves, as one: evaluations of slices, metrics of blocks.

#include <span>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/models/block.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

// Collective. A slice is zero on every rank but one; `measures`: metrics of the model. Adds up in
// the order of slices: the same bits at any size.
Result<EvaluationTotals> combine_totals(comm::Communicator& communicator,
                                        std::span<const EvaluationTotals> by_slice,
                                        std::size_t measures, comm::OpOptions op);

// Collective. `own`: of the blocks on this rank; `names`: of the whole model's metrics, alike on
// every rank. Of each name the largest value, the worst block's.
Result<std::vector<observe::Metric>> combine_metrics(comm::Communicator& communicator,
                                                     const std::vector<std::string>& names,
                                                     std::span<const models::BlockMetric> own,
                                                     comm::OpOptions op);

}  // namespace muster::parallel
