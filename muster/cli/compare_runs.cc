#include "muster/cli/compare_runs.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "muster/cli/application.h"
#include "muster/cli/compared_run.h"
#include "muster/cli/find_run.h"
#include "muster/cli/json_line.h"
#include "muster/job/fields.h"
#include "muster/job/load.h"
#include "muster/observe/comparison.h"
#include "muster/observe/run_list.h"
#include "muster/observe/side_by_side.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;
using observe::SideBySide;

struct CompareRunsArguments {
  std::vector<std::string> names;
  std::string runs;
  std::string page;
  bool json = false;
};

struct Compared {
  std::vector<observe::ComparedRun> runs;
  std::optional<std::vector<SideBySide>> differences;  // of their jobs; none: one cannot be read
  std::vector<SideBySide> metrics;
};

// The fields that not all have alike; what a run's job does not have is empty.
std::vector<SideBySide> differences_of(const std::vector<Json>& jobs, const job::Fields& fields) {
  std::vector<SideBySide> differences;
  for (const auto& field : fields.all()) {
    SideBySide one{field.name, {}};
    for (const Json& job : jobs) {
      const auto entry = job.find(field.name);
      one.values.push_back(entry == job.end() ? "" : entry->at("value").dump());
    }
    if (std::ranges::adjacent_find(one.values, std::not_equal_to<>()) != one.values.end())
      differences.push_back(std::move(one));
  }
  return differences;
}

// A run whose job cannot be read any more is compared by what it measured.
std::optional<std::vector<SideBySide>> read_differences(
    const std::vector<observe::ComparedRun>& runs, Context& context) {
  std::vector<Json> jobs;
  jobs.reserve(runs.size());
  for (const observe::ComparedRun& run : runs) {
    const Path path = Path(run.folder) / "resolved.yaml";
    const auto job = job::load_job(context.files, path, {.fields = context.fields});
    if (!job) {
      warn(context, fmt::format("jobs are not compared: {}", job.error().message));
      return std::nullopt;
    }
    jobs.push_back(Json::parse(job::to_json(*job)));
  }
  return differences_of(jobs, *context.fields);
}

Result<Compared> read_all(const CompareRunsArguments& arguments, Context& context) {
  Compared compared;
  compared.runs.reserve(arguments.names.size());
  for (const std::string& name : arguments.names) {
    MUSTER_ASSIGN(const auto folder, find_run({name, arguments.runs}, context));
    const observe::RunName place = observe::name_of(folder.root());
    MUSTER_ASSIGN(auto run,
                  compared_run(fmt::format("{} {}", place.job, place.id), folder, context.files));
    for (const std::string& line : run.run.left_out) warn(context, "not compared: " + line);
    compared.runs.push_back(std::move(run));
  }
  compared.differences = read_differences(compared.runs, context);
  compared.metrics = observe::final_metrics(compared.runs);
  return compared;
}

std::string differences_text(const Compared& compared, const std::vector<std::string>& names,
                             std::size_t width) {
  if (!compared.differences) return "jobs: not compared\n";
  if (compared.differences->empty()) return "the same job\n";
  return observe::side_by_side_text("job", names, *compared.differences, width);
}

Json to_json(const std::vector<SideBySide>& rows) {
  Json object = Json::object();
  for (const SideBySide& row : rows) object[row.what] = row.values;
  return object;
}

std::vector<std::string> names_of(const Compared& compared) {
  std::vector<std::string> names;
  names.reserve(compared.runs.size());
  for (const auto& run : compared.runs) names.push_back(run.name);
  return names;
}

std::string text_of(const Compared& compared, const std::vector<observe::RunFigures>& figures,
                    std::size_t width) {
  const auto names = names_of(compared);
  std::string text = differences_text(compared, names, width);
  text += "\n" + observe::side_by_side_text("metric", names, compared.metrics, width);
  return text + "\n" + observe::comparison_text(figures, width);
}

Status write_page(const Path& page, const Compared& compared, Context& context) {
  const auto names = names_of(compared);
  const std::string cards =
      observe::side_by_side_card("What differs in the jobs", names,
                                 compared.differences.value_or(std::vector<SideBySide>{})) +
      observe::side_by_side_card("Final metrics", names, compared.metrics);
  const Path base = context.absolute(page).parent_path();
  auto runs = compared.runs;
  for (auto& run : runs) run.folder = context.absolute(run.folder).native();
  return write_atomically(context.files, page,
                          observe::render_comparison("Runs compared", runs, base, cards));
}

Status compare(const CompareRunsArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const Compared compared, read_all(arguments, context));
  std::vector<observe::RunFigures> figures;
  figures.reserve(compared.runs.size());
  for (const auto& run : compared.runs) figures.push_back(observe::figures_of(run));
  if (!arguments.page.empty()) {
    if (const Status written = write_page(arguments.page, compared, context); !written)
      return with_context(written.error(), "[runs] no page; --page FILE may name another place");
  }
  if (context.answers_json(arguments.json)) {
    context.out << json_line(
        {{"runs", observe::comparison_json(figures)},
         {"differences", compared.differences ? to_json(*compared.differences) : Json()},
         {"metrics", to_json(compared.metrics)},
         {"page", arguments.page}});
    return ok();
  }
  context.out << text_of(compared, figures, context.width_of_out());
  if (!arguments.page.empty()) context.out << fmt::format("\npicture: {}\n", arguments.page);
  return ok();
}

}  // namespace

void add_compare_runs_command(CLI::App& runs, Context& context) {
  CLI::App& command =
      add_command(runs, "compare", "What differs between runs: job, final metrics, curves",
                  {"muster runs compare 3f09a1 0ab3c1",
                   "muster runs compare fashion gpt --page compared.html"});
  const auto arguments = std::make_shared<CompareRunsArguments>();
  constexpr int kMost = 6;  // as many as there are colours
  command
      .add_option("RUN", arguments->names,
                  "Runs: their folders, their ids, names of jobs for the newest, or latest")
      ->required()
      ->expected(2, kMost)
      ->type_name("");
  add_run_folder_option(command, arguments->runs);
  command.add_option("--page", arguments->page, "Draw the curves, too, on a page")
      ->type_name("FILE");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      return conclude(context, compare(*arguments, context));
    };
  });
}

}  // namespace muster::cli
