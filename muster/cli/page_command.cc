#include "muster/cli/page_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/base/pause.h"
#include "muster/base/shell_words.h"
#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/page_server.h"
#include "muster/observe/run_list.h"

namespace muster::cli {
namespace {

constexpr Duration kServes = std::chrono::hours(1);

struct PageArguments {
  std::string runs;
  std::uint16_t port = 0;
  bool json = false;
};

// Below a run there are none, and the list would be empty.
Status check_is_no_run(const Path& runs, const Context& context) {
  if (!observe::is_run(context.files, runs)) return ok();
  return fail(ErrorCode::kInvalid,
              fmt::format("[page] {0} is a run, not the folder that runs are in, `run_folder` of "
                          "their jobs; that of one job's runs does as well; the page of this one "
                          "alone makes: muster report {1}",
                          runs.native(), shell_quoted(runs.native())));
}

// Until it is interrupted.
Status serve(const PageArguments& arguments, Context& context) {
  const Path runs = runs_folder(arguments.runs, context);
  if (!context.files.exists(runs))
    return fail(ErrorCode::kNotFound,
                fmt::format("[page] no folder {}; give the one that runs are in, `run_folder` of "
                            "their jobs",
                            runs.native()));
  MUSTER_TRY(check_is_no_run(runs, context));
  if (const auto names = context.files.list(runs); !names)
    return with_context(names.error(),
                        fmt::format("[page] {} is not the folder that runs are in", runs.native()));
  MUSTER_ASSIGN(const auto server, PageServer::open(context.files, runs, arguments.port));
  const bool json = context.answers_json(arguments.json);
  context.out << (json ? json_line({{"page", server->url()}})
                       : fmt::format("{} shows {}; Ctrl-C ends it\n", server->url(), runs.native()))
              << std::flush;
  while (context.out) pause(context.clock, kServes);
  return ok();
}

}  // namespace

void add_page_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(app, "page", "Show runs in a browser on this host, live",
                                  {"muster page runs", "muster page --port 8080"});
  const auto arguments = std::make_shared<PageArguments>();
  command.add_option("RUNS_FOLDER", arguments->runs, "Where the runs are; by default `runs`")
      ->type_name("");
  command.add_option("--port", arguments->port, "Of 127.0.0.1; by default any that is free")
      ->type_name("N")
      ->check(CLI::Range(0, 65535));
  command.add_flag("--json", arguments->json, "Tell the address in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return conclude(context, serve(*arguments, context));
    };
  });
}

}  // namespace muster::cli
