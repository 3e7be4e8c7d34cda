#pragma once
// `muster top`: what each worker of a run does, drawn again and again.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_top_command(CLI::App& app, Context& context);

}  // namespace muster::cli
