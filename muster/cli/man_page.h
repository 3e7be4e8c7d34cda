#pragma once
// The manual page, muster(1), of the command line as it is.

#include <string>

namespace CLI {
class App;
}

namespace muster::cli {

// roff with the macros of man(7).
std::string man_page(const CLI::App& app);

}  // namespace muster::cli
