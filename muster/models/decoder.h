#pragma once
// Decoder-only transformers: the blocks of the families gpt, llama and moe (create.h), which differ
// in the parts that a layer is made of.

#include <vector>

#include "muster/models/block.h"
#include "muster/models/create.h"

namespace muster::models {

// Blocks "embedding", "layer<i>", "head". With a tied head, the head's weight is the embedding's
// "token.weight", published there only.
std::vector<NamedBlock> build_decoder(const GptSpec& spec);
std::vector<NamedBlock> build_decoder(const LlamaSpec& spec);
std::vector<NamedBlock> build_decoder(const MoeSpec& spec);

// The hidden width of the layers' MLP where the spec leaves it open.
std::int64_t hidden_width(const GptSpec& spec) noexcept;
std::int64_t hidden_width(const LlamaSpec& spec) noexcept;

}  // namespace muster::models
