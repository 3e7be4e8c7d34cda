#pragma once

namespace CLI {
class App;
}

namespace muster::cli {

struct Context;

void add_launch_command(CLI::App& app, Context& context);

}  // namespace muster::cli
