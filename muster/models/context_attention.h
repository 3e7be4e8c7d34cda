#pragma once
// Causal attention over sequences of which each rank has some positions: by exchanging heads for
// positions (DeepSpeed-Ulysses: Jacobs et al. 2023), or by passing keys and values around a ring
// (ring attention: Liu et al. 2023). The CPU's fused kernel. Thread rule: that of the pass.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "muster/base/share.h"
#include "muster/models/context_group.h"

namespace muster::models {

// What a rank has of [n, heads, positions here, head width]; keys and values may have fewer heads,
// of which each serves as many neighbouring query heads.
struct AttentionHeads {
  torch::Tensor query, key, value;
};

// The positions of a rank under ulysses: one run. `positions` is a multiple of share.size, else it
// throws.
std::vector<Share> neighbouring_positions(std::int64_t positions, TensorShare share);
// Under ring: of 2 · ranks runs the rank's from the front and its from the back, so that all ranks
// have the same work in causal attention. `positions` is a multiple of 2 · share.size.
std::vector<Share> zigzag_positions(std::int64_t positions, TensorShare share);

// [n, query heads, positions here, head width]. `heads` has neighbouring_positions(), and numbers
// of heads that are multiples of the ranks. Forward and backward exchange 2 · (query heads + key
// heads) · head width numbers a position here each, of which 1 / ranks stays.
torch::Tensor ulysses_attention(const AttentionHeads& heads, const ContextGroup& group);

// The same; `heads` has zigzag_positions(). Each rank sends its keys and values (ranks - 1) times
// in forward and in backward, where their gradients, in f32 at least, follow them as often. Partial
// results are merged by their log-sum-exp, in an order that follows from the number of ranks.
torch::Tensor ring_attention(const AttentionHeads& heads, const ContextGroup& group);

// The one of the two that the group wants.
torch::Tensor context_attention(const AttentionHeads& heads, const ContextGroup& group);

}  // namespace muster::models
