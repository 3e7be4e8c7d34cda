#pragma once
// `muster page`: the runs of a folder in a browser, as they are now.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_page_command(CLI::App& app, Context& context);

}  // namespace muster::cli
