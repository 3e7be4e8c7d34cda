#pragma once
// Which positions of every sequence a pass has here, where ranks share them: a context group's
// everywhere, a tensor group's that cuts sequences between layers only. Pure.

#include <torch/types.h>

#include <cstdint>

#include "muster/models/block.h"
#include "muster/models/context_group.h"
#include "muster/models/partition.h"

namespace muster::models {

// How many ranks share a sequence; of null one.
std::int64_t ranks_of(const ContextGroup* group) noexcept;

// Of `whole` positions this rank's, as its attention wants them; of null all. They are a multiple
// of the ranks, for ring attention of twice the ranks.
AxisPart positions_of(std::int64_t whole, const ContextGroup* group);

// Between layers, of a tensor that has `here` of the positions.
AxisPart positions_between_layers(std::int64_t here, const PassContext& context);

// That part of `whole` along `axis`; of one run a view.
torch::Tensor take(const torch::Tensor& whole, std::int64_t axis, const AxisPart& part);

}  // namespace muster::models
