#pragma once
// `muster submit`: hands a job to a scheduler, on as many hosts as it is asked for.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_submit_command(CLI::App& app, Context& context);

}  // namespace muster::cli
