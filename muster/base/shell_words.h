#pragma once
// Words as a shell reads them. Pure.

#include <string>
#include <string_view>

namespace muster {

// A word as sh takes it whole.
std::string shell_quoted(std::string_view word);

}  // namespace muster
