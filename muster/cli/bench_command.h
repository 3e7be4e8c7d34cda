#pragma once
// `muster bench comm`: how fast ranks exchange tensors here, or over the network between hosts.

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_bench_command(CLI::App& app, Context& context);

}  // namespace muster::cli
