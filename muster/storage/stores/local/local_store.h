#pragma once
// Objects as files below one folder. A put writes under another name, forces the bytes to the disk
// and renames; what a crash leaves of one is never listed and goes with the next put of its name.

#include <memory>

#include "muster/base/files.h"
#include "muster/storage/object_store.h"

namespace muster::storage {

// `files` outlives the store; `root` is made on the first put.
std::unique_ptr<ObjectStore> create_local_store(Files& files, Path root);

}  // namespace muster::storage
