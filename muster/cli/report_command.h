#pragma once
// `muster report`: the page of a run, made again from its files.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_report_command(CLI::App& app, Context& context);

}  // namespace muster::cli
