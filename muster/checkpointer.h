#pragma once
// What a training loop of a user's own includes for muster::Checkpointer
// (checkpoint/checkpointer.h) alone, and the tensors of a module as it stores them
// (own/module_tensors.h).

#include "muster/checkpoint/checkpointer.h"
#include "muster/own/module_tensors.h"

namespace muster {

using checkpoint::Checkpointer;

}  // namespace muster
