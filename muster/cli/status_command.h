#pragma once
// `muster status`: where a run is.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_status_command(CLI::App& app, Context& context);

}  // namespace muster::cli
