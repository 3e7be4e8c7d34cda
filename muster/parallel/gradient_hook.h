#pragma once
// Who is told when autograd has the gradient of a parameter. On the thread that runs backward.

#include <ATen/core/Tensor.h>

#include <functional>

namespace muster::parallel {

// Calls `found` with the whole gradient of one pass, and takes it away from the parameter, so that
// the next pass starts without one and nothing is added to it. One for each parameter: a later one
// takes the place of an earlier. A parameter that has no part in the loss has no gradient: `found`
// is not called.
void when_gradient_is_found(const at::Tensor& parameter, std::function<void(at::Tensor)> found);

}  // namespace muster::parallel
