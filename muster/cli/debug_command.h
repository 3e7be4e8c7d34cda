#pragma once
// `muster debug`: where every worker of a run is, and who holds it up.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_debug_command(CLI::App& app, Context& context);

}  // namespace muster::cli
