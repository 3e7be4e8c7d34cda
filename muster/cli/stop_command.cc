#include "muster/cli/stop_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/app/debug/launcher_process.h"
#include "muster/base/pause.h"
#include "muster/base/process.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/run_json.h"
#include "muster/observe/number_text.h"
#include "muster/observe/run_list.h"

namespace muster::cli {
namespace {

constexpr Duration kStopsEvery = std::chrono::milliseconds(50);
constexpr Duration kSecondSignal = std::chrono::milliseconds(300);  // sooner it counts as the first

struct StopArguments {
  RunArguments run;
  std::string timeout = "10 min";
  bool now = false;
  bool wait = true;
  bool json = false;
};

bool trains(int launcher, const observe::RunFolder& folder, Files& files) {
  const auto now = folder.launcher(files);
  return now && *now == launcher;
}

Status tell_to_stop(int launcher, bool now, const observe::RunFolder& folder, Context& context) {
  MUSTER_TRY(send_signal(launcher, SIGTERM));
  if (!now) return ok();
  pause(context.clock, kSecondSignal);
  return trains(launcher, folder, context.files) ? send_signal(launcher, SIGTERM) : ok();
}

Status wait_for_end(int launcher, const observe::RunFolder& folder, Duration patience,
                    Context& context) {
  const Deadline deadline = Deadline::after(context.clock, patience);
  while (trains(launcher, folder, context.files)) {
    if (deadline.passed(context.clock))
      return fail(ErrorCode::kTimeout,
                  fmt::format("[stop] the launcher (pid {}) of {} has not ended within {}: it "
                              "finishes its step and writes a checkpoint; `muster stop --now` "
                              "leaves without",
                              launcher, folder.root().native(), format_duration(patience)));
    pause(context.clock, kStopsEvery);
  }
  return ok();
}

std::string how_to_go_on(const observe::RunInfo& run, bool saved) {
  if (!saved || run.state == observe::RunState::kFinished ||
      run.state == observe::RunState::kRunning)
    return {};
  return fmt::format("; go on with: muster resume {}", run.root.native());
}

void tell_end(const observe::RunFolder& folder, const StopArguments& arguments, Context& context) {
  const observe::RunInfo run = look_at(context.files, folder);
  if (context.answers_json(arguments.json)) {
    context.out << json_line(to_json(run));
    return;
  }
  context.out << fmt::format("{} {}: {} at step {}{}{}\n", run.name.job, run.name.id,
                             to_string(run.state), observe::grouped(to_int(last_step(run.outline))),
                             run.reason.empty() ? "" : ", " + run.reason,
                             how_to_go_on(run, folder.has_checkpoint(context.files)));
}

Status stop(const StopArguments& arguments, Context& context) {
  const auto patience = parse_duration(arguments.timeout);
  if (!patience) return with_context(patience.error(), "--timeout");
  MUSTER_ASSIGN(const auto folder, find_run(arguments.run, context));
  const auto launcher = app::launcher_process(folder, context.files);
  if (!launcher && launcher.error().code == ErrorCode::kNotFound)
    return with_context(launcher.error(), "[stop] there is nothing to stop");
  if (!launcher) return launcher.error();
  MUSTER_TRY(tell_to_stop(*launcher, arguments.now, folder, context));
  if (arguments.wait) MUSTER_TRY(wait_for_end(*launcher, folder, *patience, context));
  tell_end(folder, arguments, context);
  return ok();
}

}  // namespace

void add_stop_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "stop", "End a run: at the end of the step, with a checkpoint",
                  {"muster stop fashion", "muster stop 3f09a1 --timeout 1min"});
  const auto arguments = std::make_shared<StopArguments>();
  add_run_arguments(command, arguments->run);
  command.add_flag("--now", arguments->now, "At once, without a checkpoint");
  command.add_flag("--wait,!--no-wait", arguments->wait, "Until it has ended (the default)");
  command.add_option("--timeout", arguments->timeout, "How long to wait; by default 10 min")
      ->type_name("DURATION");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return conclude(context, stop(*arguments, context)); };
  });
}

}  // namespace muster::cli
