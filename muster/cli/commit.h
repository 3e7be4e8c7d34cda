#pragma once
// Which commit this program was built from.

#include <string_view>

namespace muster::cli {

std::string_view commit();  // `git describe` when this was configured; "unknown" outside a clone

}  // namespace muster::cli
