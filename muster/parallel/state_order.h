#pragma once
// The names of a state's tensors and the order in which checkpoints have them. Pure.

#include <string>
#include <vector>

#include "muster/base/tensor_slice.h"

namespace muster::parallel {

// The parameter or statistic that a tensor of the state belongs to: of
// "optimizer/<parameter>/<kind>" the middle, else all of it.
std::string owner_in(const std::string& state_name);

// As one rank that holds everything would have it: by owner, in the order of `owners`, which holds
// all of them; tensors of one owner stay in their order.
void sort_by_owner(const std::vector<std::string>& owners, std::vector<TensorSlice>& state);

}  // namespace muster::parallel
