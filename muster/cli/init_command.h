#pragma once
// `muster init DATA`: writes a first job file for data, by looking at it.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_init_command(CLI::App& app, Context& context);

}  // namespace muster::cli
