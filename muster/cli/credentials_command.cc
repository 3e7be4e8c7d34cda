#include "muster/cli/credentials_command.h"

#include <CLI/CLI.hpp>
#include <ostream>

#include "muster/cli/application.h"
#include "muster/net/credentials.h"

namespace muster::cli {
namespace {

ExitCode run_command(Context& context) {
  const auto made = net::create_credentials(context.clock.wall());
  if (!made) return report(context, made.error());
  context.out << net::to_text(*made) << "\n";
  return ExitCode::kDone;
}

}  // namespace

void add_credentials_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "credentials",
                  "Make a certificate and key for ranks that another launcher than muster's starts",
                  {"export MUSTER_CREDENTIALS=$(muster credentials)",
                   "MUSTER_CREDENTIALS=$(muster credentials) srun --ntasks 8 ./train"});
  command.callback([&context] { context.action = [&context] { return run_command(context); }; });
}

}  // namespace muster::cli
