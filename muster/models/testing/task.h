#pragma once
// A model with something to learn, for tests: the same numbers each time.

#include <torch/types.h>

#include <cstdint>
#include <utility>

#include "muster/models/create.h"

namespace muster::models {

struct Task {
  ModelSpec spec;
  torch::Tensor inputs;  // [samples, …]
  torch::Tensor targets;
  Precision precision = Precision::kF32;
};

inline torch::Tensor waves(torch::IntArrayRef shape) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kFloat32) * 0.37f).view(shape);
}

inline Task image_task(std::int64_t samples, bool channels_last, NormKind norm = NormKind::kBatch) {
  return {
      ResNetSpec{.channels = {8, 16}, .norm = norm, .dropout = 0.1, .channels_last = channels_last},
      waves({samples, 1, 12, 12}), torch::arange(samples) % 10};
}

// Of a context of 8 bytes.
inline Task text_task(std::int64_t samples, ModelSpec spec) {
  const auto text = (torch::arange(samples * 9) * 7 % 251).view({-1, 9});
  return {std::move(spec), text.narrow(1, 0, 8).to(torch::kUInt8), text.narrow(1, 1, 8)};
}

}  // namespace muster::models
