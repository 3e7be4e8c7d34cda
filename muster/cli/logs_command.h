#pragma once
// `muster logs`: what the workers of a run wrote.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_logs_command(CLI::App& app, Context& context);

}  // namespace muster::cli
