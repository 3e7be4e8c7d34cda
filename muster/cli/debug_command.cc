#include "muster/cli/debug_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "muster/app/debug/ask.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"

namespace muster::cli {
namespace {

struct DebugArguments {
  RunArguments run;
  bool json = false;
  bool stacks = false;
};

ExitCode debug(const DebugArguments& arguments, Context& context) {
  const auto folder = find_run(arguments.run, context);
  if (!folder) return report(context, folder.error());
  const auto found = app::ask_where(*folder, context.files, context.clock);
  if (!found) return report(context, found.error());
  if (context.answers_json(arguments.json)) {
    context.out << app::to_json(*found) << "\n";
    return ExitCode::kDone;
  }
  context.out << context.fitted_to_out(fmt::format("{} at {}, {}\n{}", folder->root().native(),
                                                   found->time, found->occasion,
                                                   app::to_text(*found, arguments.stacks)));
  return ExitCode::kDone;
}

}  // namespace

void add_debug_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(
      app, "debug", "Show where every worker of a run is, and who holds it up",
      {"muster debug runs/fashion/latest", "muster debug --stacks runs/fashion/latest"});
  const auto arguments = std::make_shared<DebugArguments>();
  add_run_arguments(command, arguments->run);
  command.add_flag("--stacks", arguments->stacks,
                   "The stacks of all workers, not only of those who hold the others up");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return debug(*arguments, context); };
  });
}

}  // namespace muster::cli
