#pragma once
// Which muster this is, and with which libtorch. All workers of a job need the same: others compute
// other bits, for which their memory would be blamed.

#include <string>

namespace muster::cluster {

std::string build_version();  // "muster 0.1.0 with libtorch 2.11.0"

}  // namespace muster::cluster
