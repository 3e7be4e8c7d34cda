#pragma once
// What `muster doctor` finds out, without how it shows it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/cli/context.h"

namespace muster::cli {

enum class CheckState { kOk, kWarning, kBad };  // fine, works but, training cannot start

struct Check {
  std::string name;  // "memory"
  CheckState state = CheckState::kOk;
  std::string value;  // what was found
  std::string fix;    // what to do; empty where nothing needs to be done
};

// With `port`, whether others could be listened for there.
std::vector<Check> examine(Context& context, std::optional<std::uint16_t> port = {});

}  // namespace muster::cli
