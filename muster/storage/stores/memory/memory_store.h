#pragma once
// Objects in memory, for tests and for worlds that end with their process.

#include <memory>

#include "muster/storage/object_store.h"

namespace muster::storage {

std::unique_ptr<ObjectStore> create_memory_store();

}  // namespace muster::storage
