#pragma once
// A run that is there, as one side of a comparison.

#include <string>

#include "muster/base/files.h"
#include "muster/observe/comparison.h"
#include "muster/observe/run_folder.h"

namespace muster::cli {

// Reads what the run left. kNotFound: nothing was ever recorded.
Result<observe::ComparedRun> compared_run(const std::string& name, const observe::RunFolder& run,
                                          Files& files);

}  // namespace muster::cli
