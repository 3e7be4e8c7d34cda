#pragma once
// A run as commands answer programs.

#include <nlohmann/json_fwd.hpp>

#include "muster/observe/run_list.h"

namespace muster::cli {

nlohmann::ordered_json to_json(const observe::RunInfo& run);

}  // namespace muster::cli
