#pragma once
// The blocks of the mlp family (create.h).

#include <vector>

#include "muster/models/block.h"
#include "muster/models/create.h"

namespace muster::models {

// Blocks "layer0", "layer1", …, "head".
std::vector<NamedBlock> build_mlp(const MlpSpec& spec);

}  // namespace muster::models
