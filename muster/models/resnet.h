#pragma once
// The blocks of the resnet family (create.h).

#include <vector>

#include "muster/models/block.h"
#include "muster/models/create.h"

namespace muster::models {

// Blocks "stem", "stage<i>_block<j>", "head".
std::vector<NamedBlock> build_resnet(const ResNetSpec& spec);

}  // namespace muster::models
