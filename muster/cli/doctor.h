#pragma once
// What `muster doctor` finds out, without how it shows it.

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

std::vector<Check> examine(Context& context);

}  // namespace muster::cli
