#pragma once
// `muster credentials`: makes what the processes of a job prove themselves with to each other.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_credentials_command(CLI::App& app, Context& context);

}  // namespace muster::cli
