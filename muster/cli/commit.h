#pragma once
// Which commit this program was built from, and with which libtorch.

#include <string_view>

namespace muster::cli {

std::string_view commit();  // `git describe` when this was configured; "unknown" outside a clone
// That muster-worker was compiled with: "2.11.0"; empty where this was built without (preset core).
std::string_view libtorch();

}  // namespace muster::cli
