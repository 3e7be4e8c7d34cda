#pragma once
// Losses and metrics as people write them: a value for each sample or each target, of which the
// mean counts. So sums over slices, and with them the result, do not depend on how a batch was cut.

#include <torch/types.h>

#include <functional>
#include <string>

namespace muster::models {

// outputs [n, …] of a model and their targets [n, …] -> values [n, …] without a reduction: one for
// each sample, or one for each target.
using Measure =
    std::function<torch::Tensor(const torch::Tensor& outputs, const torch::Tensor& targets)>;

// The sum that, over the number of targets, is the mean: a scalar with grad where the values have
// one. `name`: of the loss or metric, for what is thrown where the values are neither.
torch::Tensor sum_of(const Measure& measure, const std::string& name, const torch::Tensor& outputs,
                     const torch::Tensor& targets);

}  // namespace muster::models
