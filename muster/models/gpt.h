#pragma once
// The blocks of the gpt family (create.h).

#include <vector>

#include "muster/models/block.h"
#include "muster/models/create.h"

namespace muster::models {

// Blocks "embedding", "layer<i>", "head". With a tied head, the head's weight is the embedding's
// "token.weight", published there only.
std::vector<NamedBlock> build_gpt(const GptSpec& spec);

}  // namespace muster::models
