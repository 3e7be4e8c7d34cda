#include "muster/cli/report_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/cli/application.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/observe/report.h"

namespace muster::cli {
namespace {

struct ReportArguments {
  RunArguments run;
  std::string output;
  bool json = false;
};

Result<observe::ReportInput> read(Files& files, const observe::RunFolder& folder) {
  auto input = observe::read_run(files, folder);
  if (input || input.error().code != ErrorCode::kNotFound) return input;
  return fail(ErrorCode::kNotFound,
              fmt::format("[report] {} has no metrics.jsonl: nothing was recorded there; give the "
                          "folder of a run, as in runs/fashion/latest",
                          folder.root().native()));
}

Status make(const ReportArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto folder, find_run(arguments.run, context));
  MUSTER_ASSIGN(const auto input, read(context.files, folder));
  for (const std::string& line : input.left_out) warn(context, "not in the report: " + line);
  const Path page = arguments.output.empty() ? folder.report() : Path(arguments.output);
  if (const Status written = observe::write_report(context.files, input, page); !written)
    return with_context(written.error(),
                        "[report] no page; --output FILE puts it into another place");
  const bool json = context.answers_json(arguments.json);
  context.out << (json ? json_line({{"report", page.native()}}) : page.native() + "\n");
  return ok();
}

}  // namespace

void add_report_command(CLI::App& app, Context& context) {
  CLI::App& command =
      add_command(app, "report", "Make the page of a run again from what it recorded",
                  {"muster report runs/fashion/latest",
                   "muster report runs/fashion/latest --output page.html"});
  const auto arguments = std::make_shared<ReportArguments>();
  add_run_arguments(command, arguments->run);
  command
      .add_option("-o,--output", arguments->output,
                  "Where to put the page; by default into the run")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return conclude(context, make(*arguments, context)); };
  });
}

}  // namespace muster::cli
