#pragma once
// `muster checkpoint list|verify|export`: what a run has saved, whether it is whole, and its
// weights.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_checkpoint_command(CLI::App& app, Context& context);

}  // namespace muster::cli
