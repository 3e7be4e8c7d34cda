#pragma once
// The folder of a run on a disk in memory. For tests.

#include <gtest/gtest.h>

#include "muster/base/files.h"
#include "muster/testing/memory_files.h"

namespace muster::checkpoint {

inline Path checkpoints() { return "/run/checkpoints"; }

// All but the checkpoints' folder, which a save makes.
inline void make_run(testing::MemoryFiles& disk) {
  ASSERT_TRUE(disk.create_folders("/run") && disk.sync_folder("/"));
}

}  // namespace muster::checkpoint
