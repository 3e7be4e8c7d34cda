#include "muster/cli/json_line.h"

#include <nlohmann/json.hpp>

namespace muster::cli {

std::string json_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace muster::cli
