#include "muster/cluster/variables.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

namespace muster::cluster {

std::optional<std::string> system_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

Result<std::optional<std::int32_t>> number_in(const VariableLookup& variable,
                                              const std::string& name, std::int32_t least) {
  const auto text = variable(name);
  if (!text) return std::optional<std::int32_t>();
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc() && end == text->data() + text->size() && value >= least)
    return std::optional(value);
  return fail(ErrorCode::kInvalid,
              fmt::format("[cluster/environment] {} is \"{}\"; expected a number of at least {}",
                          name, *text, least));
}

}  // namespace muster::cluster
