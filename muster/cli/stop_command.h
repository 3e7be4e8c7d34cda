#pragma once
// `muster stop`: ends a run with a checkpoint.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_stop_command(CLI::App& app, Context& context);

}  // namespace muster::cli
