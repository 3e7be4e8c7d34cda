#pragma once
// Reading environment variables, or what stands for them in tests.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/result.h"

namespace muster::cluster {

using VariableLookup = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> system_variable(const std::string& name);

// kInvalid: it is set to what is no whole number of at least `least`. Nothing: it is not set.
Result<std::optional<std::int32_t>> number_in(const VariableLookup& variable,
                                              const std::string& name, std::int32_t least);

}  // namespace muster::cluster
