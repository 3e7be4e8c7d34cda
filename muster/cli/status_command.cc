#include "muster/cli/status_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/app/debug/ask.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/run_json.h"
#include "muster/cli/run_status.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

struct StatusArguments {
  RunArguments run;
  bool json = false;
};

Result<RunStatus> read_status(const RunArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto folder, find_run(arguments, context));
  RunStatus status{look_at(context.files, folder), std::nullopt, {}};
  if (status.run.state != observe::RunState::kRunning) return status;
  auto workers = app::ask_where(folder, context.files, context.clock);
  if (workers)
    status.workers = std::move(*workers);
  else
    status.no_answer = workers.error().message;
  return status;
}

Json status_json(const RunStatus& status) {
  Json object = to_json(status.run);
  const auto left = time_left(status.run);
  object["left_s"] = left ? Json(to_seconds(*left)) : Json();
  object["metrics"] = Json::object();
  if (status.run.outline.last_step) {
    for (const auto& metric : status.run.outline.last_step->values)
      object["metrics"][metric.name] = metric.value;
  }
  object["members"] = Json::array();
  object["late"] = Json::array();
  object["slow"] = status.run.outline.slow;
  if (!status.workers) return object;
  for (const app::DebugWorker& worker : status.workers->workers) {
    object["members"].push_back({{"worker", worker.worker},
                                 {"host", worker.host},
                                 {"pid", worker.pid},
                                 {"step", worker.step},
                                 {"phase", worker.phase},
                                 {"state", worker.state}});
  }
  object["late"] = late_workers(*status.workers);
  return object;
}

Status show_status(const StatusArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const RunStatus status, read_status(arguments.run, context));
  const bool json = context.answers_json(arguments.json);
  context.out << (json ? json_line(status_json(status)) : status_text(status));
  return ok();
}

}  // namespace

void add_status_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "status", "Show where a run is: step, rate, workers, who is late",
                  {"muster status fashion", "muster status 3f09a1 --json"});
  const auto arguments = std::make_shared<StatusArguments>();
  add_run_arguments(command, arguments->run);
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return conclude(context, show_status(*arguments, context));
    };
  });
}

}  // namespace muster::cli
