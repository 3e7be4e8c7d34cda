#include "muster/cli/logs_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "muster/base/pause.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/log_reader.h"

namespace muster::cli {
namespace {

constexpr Duration kLogsEvery = std::chrono::milliseconds(200);

struct LogsArguments {
  RunArguments run;
  std::optional<std::uint16_t> rank;
  std::optional<std::size_t> tail;
  bool follow = false;
  bool json = false;
};

// Until the run has ended, or whoever reads has gone.
void follow(LogReader& reader, const observe::RunFolder& folder, Context& context) {
  while (folder.launcher(context.files) && context.out.flush()) {
    reader.read_on();
    pause(context.clock, kLogsEvery);
  }
  reader.read_on();
}

Status show_logs(const LogsArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto folder, find_run(arguments.run, context));
  const bool json = context.answers_json(arguments.json);
  bool any = false;
  LogReader reader(context.files, folder, arguments.rank, [&](auto rank, std::string_view line) {
    any = true;
    if (json) {
      context.out << json_line({{"rank", rank}, {"line", line}});
    } else if (arguments.rank) {
      context.out << line << "\n";
    } else {
      context.out << fmt::format("[rank{}] {}\n", rank, line);
    }
  });
  reader.begin(arguments.tail);
  if (arguments.follow) follow(reader, folder, context);
  reader.finish();
  if (any || !arguments.rank || context.files.exists(folder.log(Rank{*arguments.rank})))
    return ok();
  return fail(ErrorCode::kNotFound,
              fmt::format("[logs] {} has no log of a worker {}; those of workers on other hosts "
                          "are there",
                          folder.root().native(), *arguments.rank));
}

}  // namespace

void add_logs_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(app, "logs", "Show what the workers of a run wrote",
                                  {"muster logs fashion --rank 1", "muster logs fashion -f"});
  const auto arguments = std::make_shared<LogsArguments>();
  add_run_arguments(command, arguments->run);
  command
      .add_option("--rank", arguments->rank,
                  "Only this worker's: its number, which it keeps for life")
      ->type_name("R");
  command.add_option("--tail", arguments->tail, "Only the last lines of each")
      ->check(check_not_negative)
      ->type_name("N");
  command.add_flag("-f,--follow", arguments->follow, "Go on until the run has ended");
  command.add_flag("--json", arguments->json, "Answer in JSON, one object a line");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return conclude(context, show_logs(*arguments, context));
    };
  });
}

}  // namespace muster::cli
