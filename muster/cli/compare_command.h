#pragma once
// `muster compare`: trains one job in several ways and shows what each cost.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_compare_command(CLI::App& app, Context& context);

}  // namespace muster::cli
