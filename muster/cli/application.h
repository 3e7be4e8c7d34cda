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

// `arguments` without the program's name.
ExitCode run(const std::vector<std::string>& arguments, Context& context);

// Every command of muster, in the order in which help shows them; each lives in its own file.
void add_commands(CLI::App& app, Context& context);

// Those of an application, or of a command.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

// There is none of that name; with the nearest that there is.
Error unknown_command(const CLI::App& app, const std::string& word);

// A command of `app` with its two examples; its callback should set context.action.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& summary,
                      const std::vector<std::string>& examples);

// `command` is followed by another program and its words, behind -- or not, which are not read for
// options of its own; its callback asks for them. kInvalid: there is none, or an option that is
// none of the command's.
void starts_a_program(CLI::App& command);
Result<std::vector<std::string>> program_of(const CLI::App& command);

// Of counts, as a check of CLI11's, which takes -1 for the largest that there is.
std::string check_not_negative(const std::string& word);

// --log, which every command has from the application; for one whose words are not all its own.
void add_log_option(CLI::App& app, Context& context);

}  // namespace muster::cli
