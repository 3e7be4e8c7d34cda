#pragma once
// `muster runs mlflow`: sends what the end of a run could not.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_send_to_mlflow_command(CLI::App& runs, Context& context);  // below `muster runs`

}  // namespace muster::cli
