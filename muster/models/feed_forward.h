#pragma once
// The position-wise MLP of a transformer layer.

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "muster/models/layers.h"

namespace muster::models {

enum class FeedForwardKind : std::uint8_t {
  kGelu,    // contract(gelu(expand(x)))
  kSwiGlu,  // contract(silu(gate(x)) · expand(x)): Shazeer 2020
};

struct FeedForwardOptions {
  FeedForwardKind kind = FeedForwardKind::kGelu;
  std::int64_t width = 0;
  std::int64_t hidden = 0;
  bool bias = false;
  Init init = {};
  Init contract_init = {};
  std::string prefix = {};   // of the layers' names
  std::int64_t expert = -1;  // TensorPartition::expert
};

// […, width] to the same. Layers "gate" (SwiGLU), "expand", "contract".
class FeedForward {
 public:
  FeedForward(Block& owner, const FeedForwardOptions& options);
  torch::Tensor operator()(const torch::Tensor& input, const PassContext& context) const;

 private:
  std::optional<Linear> gate_;
  Linear expand_;
  Linear contract_;
};

}  // namespace muster::models
