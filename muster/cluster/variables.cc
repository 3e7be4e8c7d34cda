#include "muster/cluster/variables.h"

#include <fmt/format.h>

#include <cstdlib>

#include "muster/base/number.h"

namespace muster::cluster {

std::optional<std::string> system_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

Result<std::optional<std::int32_t>> number_in(const VariableLookup& variable,
                                              const std::string& name, std::int32_t least) {
  const auto text = variable(name);
  if (!text) return std::optional<std::int32_t>();
  const auto value = number_from<std::int32_t>(*text);
  if (value && *value >= least) return value;
  return fail(ErrorCode::kInvalid,
              fmt::format("[cluster/environment] {} is \"{}\"; expected a number of at least {}",
                          name, *text, least));
}

}  // namespace muster::cluster
