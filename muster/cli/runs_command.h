#pragma once
// `muster runs`: which runs there are, and what became of each.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_runs_command(CLI::App& app, Context& context);

}  // namespace muster::cli
