#pragma once
// libtorch for a muster that was installed without it: it is no Debian package, so what is
// installed has a script that fetches it, and the list of what it is made of (script/fetch-wheels).

#include <optional>
#include <string>
#include <vector>

#include "muster/cli/context.h"

namespace muster::cli {

// What fetches it; nothing: this muster was built with a libtorch, or the script is not there.
std::optional<std::vector<std::string>> libtorch_fetcher(const Context& context);

}  // namespace muster::cli
