#pragma once
// How a command answers programs: one JSON object a line.

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace muster::cli {

// The object and the end of the line. Bytes that are no UTF-8 are replaced.
std::string json_line(const nlohmann::ordered_json& object);

}  // namespace muster::cli
