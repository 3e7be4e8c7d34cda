#pragma once
// The command line: parses, suggests, runs the chosen command, gives the exit code.

#include <string>
#include <string_view>
#include <vector>

#include "muster/cli/context.h"

namespace CLI {
class App;
}

namespace muster::cli {

std::string_view version();

// `arguments` without the program's name.
ExitCode run(const std::vector<std::string>& arguments, Context& context);

// Every command of muster, in the order in which help shows them; each lives in its own file.
void add_commands(CLI::App& app, Context& context);

// A command of `app` with its two examples; its callback should set context.action.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::vector<std::string>& examples);

}  // namespace muster::cli
