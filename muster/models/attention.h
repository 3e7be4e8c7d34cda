#pragma once
// Causal self-attention over several heads (Vaswani et al. 2017), by libtorch's fused kernel.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/models/context_attention.h"
#include "muster/models/layers.h"
#include "muster/models/rotary.h"

namespace muster::models {

struct AttentionOptions {
  std::int64_t width = 0;
  std::int64_t heads = 0;  // of queries; each is width / heads wide
  std::int64_t kv_heads =
      0;               // of keys and values, a divisor of heads: each serves heads / kv_heads
                       // neighbouring query heads (Ainslie et al. 2023, grouped-query)
  bool joint = false;  // one matrix "qkv" (rows: all queries, all keys, all values; kv_heads
                       // as heads) instead of "query", "key", "value"
  bool bias = false;
  Init init = {};
  Init projection_init = {};
  std::shared_ptr<const RotaryTable> rotary = nullptr;  // none: the embedding knows the positions
};

// [n, positions, width] to the same. Its tensors may be cut between key heads; the query heads that
// one of them serves stay with it. A rank that has some heads computes these; the projection sums.
// Where ranks share sequences it has this rank's positions of all heads (context_attention.h).
class Attention {
 public:
  Attention(Block& owner, const AttentionOptions& options);
  torch::Tensor operator()(const torch::Tensor& input, const PassContext& context) const;

 private:
  // [n, heads here, positions here, head width]
  AttentionHeads joint_heads(const torch::Tensor& input, const PassContext& context) const;
  AttentionHeads separate_heads(const torch::Tensor& input, const PassContext& context) const;
  torch::Tensor mixed(const AttentionHeads& heads, const PassContext& context) const;

  std::int64_t heads_;
  std::int64_t kv_heads_;
  std::int64_t head_width_;
  std::vector<Linear> inputs_;  // "qkv", or "query", "key", "value"
  Linear projection_;
  std::shared_ptr<const RotaryTable> rotary_;
};

}  // namespace muster::models
