#pragma once
// Rotary position embedding (Su et al. 2021, "RoFormer"): queries and keys are turned by an angle
// that grows with their position, so that their product depends on the distance between them.

#include <torch/types.h>

#include <cstdint>

#include "muster/models/partition.h"

namespace muster::models {

// The angles' cosines and sines. Immutable, so any thread may use it.
class RotaryTable {
 public:
  // Pair i of `head_width` / 2 turns by position · base^(-2i / head_width). head_width is even.
  RotaryTable(std::int64_t positions, std::int64_t head_width, double base);

  // `heads` [n, heads, positions <= those of the table, head_width], the first at position 0; the
  // result is contiguous. Element i is paired with i + head_width / 2, as in the weights of
  // GPT-NeoX and of Llama as Hugging Face publishes them (Llama's own files pair neighbours).
  torch::Tensor rotate(const torch::Tensor& heads) const;
  // The same of heads that have these positions of a sequence.
  torch::Tensor rotate(const torch::Tensor& heads, const AxisPart& positions) const;

 private:
  struct Angles {
    torch::Tensor cosine;  // [positions, head_width / 2]
    torch::Tensor sine;
  };
  Angles single_;  // f32, from the double ones
  Angles double_;
};

}  // namespace muster::models
