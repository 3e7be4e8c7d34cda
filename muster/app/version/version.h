#pragma once
// Which muster this is, of which commit, and with which libtorch. All workers of a job need the
// same: others compute other bits, for which their memory would be blamed.

#include <string>
#include <string_view>

namespace muster::app {

std::string_view version();  // "0.1.0"
std::string_view commit();   // `git describe` when this was configured; "unknown" outside a clone
// That muster-worker was compiled with: "2.11.0"; empty where this was built without (preset core).
std::string_view libtorch();

std::string version_and_commit();  // "muster 0.1.0 (commit 6205a21)"
std::string build_version();       // "muster 0.1.0 (commit 6205a21) with libtorch 2.11.0"

}  // namespace muster::app
