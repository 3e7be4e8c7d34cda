#pragma once
// What the ranks of a new generation tell each other before they train. Collective calls: every
// rank of the communicator makes the same, in the same order.

#include <vector>

#include "muster/base/result.h"
#include "muster/comm/communicator.h"
#include "muster/parallel/strategy.h"
#include "muster/train/course.h"
#include "muster/train/position.h"

namespace muster::train {

Result<std::vector<Standing>> exchange_standings(comm::Communicator& communicator,
                                                 const Standing& mine,
                                                 const comm::OpOptions& options);

// Everybody gets the leader's position.
Status copy_position(comm::Communicator& communicator, Rank leader, parallel::Strategy& strategy,
                     Position& position, const comm::OpOptions& options);

// And its tensors before. After an error those of the others may be torn.
Status copy_state(comm::Communicator& communicator, Rank leader, parallel::Strategy& strategy,
                  Position& position, const comm::OpOptions& options);

// By rank, whose tensors it gets: itself, it keeps its own. Both hold the same part. After an error
// those that were to come may be torn.
Status copy_parts(comm::Communicator& communicator, const std::vector<Rank>& sources,
                  parallel::Strategy& strategy, const comm::OpOptions& options);

}  // namespace muster::train
