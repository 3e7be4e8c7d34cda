#pragma once
// `muster runs compare`: runs that are there, beside each other.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_compare_runs_command(CLI::App& runs, Context& context);  // below `muster runs`

}  // namespace muster::cli
