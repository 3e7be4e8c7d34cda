#pragma once
// `muster worker`: one more worker on this host, for a job that another host has launched.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_worker_command(CLI::App& app, Context& context);

}  // namespace muster::cli
