#pragma once
// Clipping by global norm (Pascanu, Mikolov, Bengio 2013) with an order of summation that depends
// on the parameters alone: the squares of each cell (cells.h) in double, then the sum of these in
// order, then that of all tensors in parameter order. Everything here is pure and thread-safe.

#include <torch/types.h>

#include <span>
#include <string>

#include "muster/base/result.h"

namespace muster::optim {

// Sum of squares of an f32 or f64 tensor, elements in row-major order. Infinite or NaN where an
// element is.
double squared_norm(const torch::Tensor& gradient);

// The norm from the squared norms of all parameters, in parameter order.
double global_norm(std::span<const double> squared_norms);

// What to multiply gradients by so that their norm does not exceed `max_norm`: 1 when it does not.
// As in PyTorch: max_norm / (norm + 1e-6). `max_norm` <= 0 switches clipping off.
double clip_scale(double norm, double max_norm) noexcept;

// kNumeric naming the first parameter whose squared norm is not finite, else ok.
Status check_finite(std::span<const double> squared_norms, std::span<const std::string> names);

}  // namespace muster::optim
