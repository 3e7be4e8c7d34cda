#pragma once
// The engine of ranks that share memory.

#include <memory>

#include "muster/comm/backend/native/shared_group.h"
#include "muster/comm/engine/engine.h"

namespace muster::comm {

std::unique_ptr<Engine> create_shared_engine(std::shared_ptr<SharedGroup> group);

}  // namespace muster::comm
