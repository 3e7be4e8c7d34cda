#pragma once

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

void add_train_command(CLI::App& app, Context& context);
void add_resume_command(CLI::App& app, Context& context);

}  // namespace muster::cli
