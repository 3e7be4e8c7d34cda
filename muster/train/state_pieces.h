#pragma once
// A strategy's state in pieces, each of which is a message. Pure.

#include <vector>

#include "muster/base/tensor_view.h"
#include "muster/parallel/strategy.h"

namespace muster::train {

// Of `state` what not all ranks hold alike.
std::vector<parallel::StateSlice> own_of(std::vector<parallel::StateSlice> state,
                                         parallel::Strategy& strategy);
// The same of all that this rank has.
std::vector<parallel::StateSlice> own_state(parallel::Strategy& strategy);

// Large enough to be fast, small enough that gradients of the same connection need not wait. Over
// the same memory; a piece is of one tensor.
std::vector<NamedTensor> cut_into_pieces(const std::vector<parallel::StateSlice>& state);

}  // namespace muster::train
