#pragma once
// The process that trains in a run's folder, for commands that signal it.

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/observe/run_folder.h"

namespace muster::app {

// kNotFound: nobody trains there now. kUnavailable: somebody of another host does, or of whom it
// cannot be told; who is no launcher might die of a signal.
Result<int> launcher_process(const observe::RunFolder& folder, Files& files);

}  // namespace muster::app
