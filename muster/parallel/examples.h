#pragma once
// From a slice's fields to what a model and its loss take.

#include <ATen/core/Tensor.h>

#include <span>

#include "muster/data/batch.h"

namespace muster::parallel {

struct Examples {
  at::Tensor inputs;   // [samples, …]
  at::Tensor targets;  // [samples, …]; of classes i64 [samples] or [samples, positions]
  std::int64_t samples() const { return inputs.size(0); }
};

// "image" or "input", and "label" or "target": inputs and targets as they are. "tokens" U8 [T + 1]:
// each byte but the last is an input, each but the first a target. Tensors may point into the
// slice's own memory.
Examples examples_of(const data::SliceBatch& slice);

// One after the other, as one.
Examples concatenate(std::span<const Examples> parts);

// Samples [begin, end).
Examples narrow(const Examples& examples, std::int64_t begin, std::int64_t end);

}  // namespace muster::parallel
