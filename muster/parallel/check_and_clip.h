#pragma once
// What every strategy asks before it updates, from the norms of the whole model's gradients.

#include <optional>
#include <span>
#include <string>

#include "muster/base/result.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

// Whether loss and gradients are finite, their norm, and what to divide them by. `squares`: the
// squared norms of all parameters' gradients, in the order of `names`. What is not finite is an
// overflow where the loss is scaled: nothing to divide by, and the report says where it began. Else
// it is kNumeric, which names the tensor.
Result<std::optional<double>> check_and_clip(const StepInput& input,
                                             std::span<const std::string> names,
                                             std::span<const double> squares, double max_grad_norm,
                                             StepReport& report);

// From the loss and the squared norms that this rank knows by itself, some parameters': what it
// would be with nothing else, where that is neither wrong nor to be clipped already.
std::optional<double> divisor_so_far(const StepInput& input, std::span<const double> squares,
                                     double max_grad_norm, const StepReport& report);

}  // namespace muster::parallel
