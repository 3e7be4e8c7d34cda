#include "muster/cli/runs_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>

#include "muster/base/text_width.h"
#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/compare_runs.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/cli/run_filter.h"
#include "muster/cli/run_json.h"
#include "muster/cli/send_to_mlflow.h"
#include "muster/observe/number_text.h"
#include "muster/observe/run_list.h"
#include "muster/observe/table_text.h"

namespace muster::cli {
namespace {

using observe::RunInfo;

struct RunsArguments {
  std::string runs;
  RunFilter filter;
  std::size_t limit = 0;  // 0: none
  bool json = false;
};

std::string loss_text(const RunInfo& run) {
  const auto& row = run.outline.last_step;
  const auto loss = row ? row->find(observe::metric::kTrainLoss) : std::nullopt;
  return loss ? fmt::format("{:.4g}", *loss) : std::string(observe::kNothing);
}

std::string best_text(const RunInfo& run) {
  const auto best = observe::best_evaluation(run.outline);
  return best ? observe::metric_text(*best).value : std::string(observe::kNothing);
}

std::vector<std::string> cells(const RunInfo& run) {
  const auto& started = run.outline.started;
  return {run.name.job,
          run.name.id,
          run.name.began.empty() ? std::string(observe::kNothing) : run.name.began.substr(5),
          std::string(to_string(run.state)),
          observe::grouped(to_int(last_step(run.outline))),
          loss_text(run),
          best_text(run),
          observe::clock_text(run.outline.took),
          started ? observe::grouped(started->workers) : std::string(observe::kNothing)};
}

using Lines = std::vector<std::vector<std::string>>;

// Names of jobs give up what the other columns need; an id is enough to say which run is meant.
void cut_names(Lines& lines, std::size_t columns) {
  constexpr std::size_t kLeastName = 8;
  std::size_t longest = 0;
  for (const auto& line : lines) longest = std::max(longest, display_width(line.front()));
  const std::size_t room = std::max(kLeastName, longest - std::min(longest, columns));
  for (auto& line : lines)
    if (display_width(line.front()) > room)
      line.front() = std::string(cut_to_width(line.front(), room - 1)) + "…";
}

// `width`: of the terminal; 0: there is none.
std::string table(const std::vector<RunInfo>& runs, std::size_t width) {
  Lines lines = {{"job", "id", "began", "state", "steps", "loss", "best", "time", "workers"}};
  lines.reserve(runs.size() + 1);
  for (const RunInfo& run : runs) lines.push_back(cells(run));
  constexpr std::size_t kWords = 4;
  std::string whole = observe::aligned(lines, kWords);
  const std::size_t wide = display_width(std::string_view(whole).substr(0, whole.find('\n')));
  if (width == 0 || wide <= width) return whole;
  cut_names(lines, wide - width);
  return observe::aligned(lines, kWords, width);
}

// Of runs that there are, none of which has passed: what is wrong with the job's name, if it is
// that.
std::string none_passes(const RunFilter& filter, const std::vector<observe::RunFolder>& found,
                        const Path& folder) {
  const std::string where = fmt::format("among the {} in {}", found.size(), folder.native());
  std::vector<std::string> jobs;
  jobs.reserve(found.size());
  for (const auto& run : found) jobs.push_back(observe::name_of(run.root()).job);
  std::ranges::sort(jobs);
  jobs.erase(std::ranges::unique(jobs).begin(), jobs.end());
  if (filter.job.empty() || std::ranges::binary_search(jobs, filter.job))
    return fmt::format("no such run {}\n", where);
  const std::vector<std::string_view> known(jobs.begin(), jobs.end());
  const std::string near = nearest(filter.job, known);
  if (!near.empty())
    return fmt::format("no run of a job `{}` {}; did you mean `{}`?\n", filter.job, where, near);
  constexpr std::size_t kMost = 8;
  const std::size_t more = jobs.size() - std::min(jobs.size(), kMost);
  jobs.resize(jobs.size() - more);
  return fmt::format("no run of a job `{}` {}, which are of {}{}\n", filter.job, where,
                     fmt::join(jobs, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

ExitCode list(const RunsArguments& arguments, Context& context) {
  if (const Status valid = check_filter(arguments.filter, *context.fields); !valid)
    return report(context, valid.error());
  const Path folder = runs_folder(arguments.runs, context);
  if (!arguments.runs.empty() && !context.files.exists(folder))
    return report(context, fail(ErrorCode::kNotFound,
                                fmt::format("[runs] no folder {}; --run-folder says where runs are",
                                            folder.native())));
  std::vector<RunInfo> runs;
  const auto found = observe::find_runs(context.files, folder);
  for (const auto& run : found) {
    RunInfo info = look_at(context.files, run);
    if (passes(arguments.filter, info, context)) runs.push_back(std::move(info));
    if (arguments.limit > 0 && runs.size() == arguments.limit) break;
  }
  if (context.answers_json(arguments.json)) {
    auto all = nlohmann::ordered_json::array();
    for (const RunInfo& run : runs) all.push_back(to_json(run));
    context.out << json_line({{"runs", std::move(all)}});
  } else if (runs.empty()) {
    context.out << (found.empty() ? fmt::format("no runs in {} yet: `muster train JOB` makes one; "
                                                "--run-folder says where others are\n",
                                                folder.native())
                                  : none_passes(arguments.filter, found, folder));
  } else {
    context.out << table(runs, context.width_of_out());
  }
  return ExitCode::kDone;
}

}  // namespace

void add_runs_command(CLI::App& app, Context& context) {
  CLI::App& command = add_command(app, "runs", "List the runs that there are, or compare some",
                                  {"muster runs --job fashion --state failed",
                                   "muster runs --where optimizer.learning_rate=0.1 --json"});
  const auto arguments = std::make_shared<RunsArguments>();
  add_run_folder_option(command, arguments->runs);
  add_filter_options(command, arguments->filter);
  command.add_option("--limit", arguments->limit, "No more than so many, the newest")
      ->check(check_not_negative)
      ->type_name("N");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  add_compare_runs_command(command, context);
  add_send_to_mlflow_command(command, context);
  command.callback([arguments, &command, &context] {
    if (!command.get_subcommands().empty()) return;
    context.action = [arguments, &context] { return list(*arguments, context); };
  });
}

}  // namespace muster::cli
