#include "muster/cli/send_to_mlflow.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/app/launch/mlflow_later.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"

namespace muster::cli {
namespace {

struct SendToMlflowArguments {
  RunArguments run;
  bool json = false;
};

Status send(const SendToMlflowArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto folder, find_run(arguments.run, context));
  MUSTER_ASSIGN(const auto sent, app::send_to_mlflow_later(
                                     folder, context.fields, context.environment, context.files,
                                     [&context](observe::Severity, const std::string& text) {
                                       warn(context, text);
                                     }));
  const std::string page = sent ? sent->page : "";
  const auto numbers = static_cast<std::int64_t>(sent ? sent->numbers : 0);
  if (context.answers_json(arguments.json)) {
    context.out << json_line({{"numbers", numbers}, {"page", page}});
  } else if (sent) {
    context.out << fmt::format("sent {} and how it ended: {}\n", counted(numbers, "number"), page);
  } else {
    context.out << fmt::format("{} has nothing that is still to be sent to MLflow\n",
                               folder.root().native());
  }
  return ok();
}

}  // namespace

void add_send_to_mlflow_command(CLI::App& runs, Context& context) {
  CLI::App& command = add_command(
      runs, "mlflow", "Send what MLflow lacks of a run that ended while it was away",
      {"muster runs mlflow runs/fashion/latest", "muster runs mlflow runs/fashion/latest --json"});
  const auto arguments = std::make_shared<SendToMlflowArguments>();
  add_run_arguments(command, arguments->run);
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return conclude(context, send(*arguments, context)); };
  });
}

}  // namespace muster::cli
