#pragma once
// `muster data audit`: whether every sample was trained on exactly once.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_data_command(CLI::App& app, Context& context);

}  // namespace muster::cli
