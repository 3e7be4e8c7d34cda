#include "muster/cli/find_run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "muster/base/units.h"
#include "muster/cli/machine.h"
#include "muster/job/spec.h"
#include "muster/observe/run_list.h"

namespace muster::cli {
namespace {

using observe::RunFolder;

// As it is told to people and kept in lists: without `latest`, and relative where it was, unless
// the folder of its job would not be in it, whose name is the run's.
Path real_place(const Path& path, const Context& context) {
  const auto target = context.machine.behind_link(path);
  const Path place = (target ? path.parent_path() / *target : path).lexically_normal();
  Path plain = place.has_filename() ? place : place.parent_path();
  const Path job = plain.parent_path().filename();
  const bool is_named = !job.empty() && job != ".." && plain.filename() != ".." && plain != ".";
  if (is_named) return plain;
  const Path whole = context.absolute(plain).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

std::optional<Path> run_at(const Path& path, const Context& context) {
  for (const Path& place : {path, path / "latest"}) {
    if (observe::is_run(context.files, place)) return real_place(place, context);
  }
  return std::nullopt;
}

Error unknown_run(const std::string& word, const std::vector<RunFolder>& all, const Path& runs,
                  bool is_folder) {
  if (is_folder)
    return fail(ErrorCode::kNotFound,
                fmt::format("[runs] {} is no folder of a run: nothing was recorded there; `muster "
                            "runs` lists what there is",
                            word));
  std::vector<std::string> names;
  if (!all.empty()) names.emplace_back(kLatestRun);
  for (const RunFolder& run : all) {
    const observe::RunName name = observe::name_of(run.root());
    names.insert(names.end(), {name.job, name.id, name.leaf});
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest(word, known);
  return fail(ErrorCode::kNotFound,
              fmt::format("[runs] no run `{}` in {}; {}", word, runs.native(),
                          !near.empty() ? fmt::format("did you mean `{}`?", near)
                          : all.empty() ? "there is none; --run-folder says where they are"
                                        : "`muster runs` lists them"));
}

}  // namespace

void add_run_folder_option(CLI::App& command, std::string& runs) {
  command
      .add_option("--run-folder", runs, "Where the runs are; by default `runs`, as in a job file")
      ->type_name("FOLDER");
}

void add_run_arguments(CLI::App& command, RunArguments& arguments) {
  command
      .add_option("RUN", arguments.run,
                  "A run: its folder, its id, the name of a job for its newest, or latest")
      ->required()
      ->type_name("");
  add_run_folder_option(command, arguments.runs);
}

Path runs_folder(const std::string& option, const Context& context) {
  if (!option.empty()) return option;
  const auto variable = context.environment.find("MUSTER_RUN_FOLDER");
  if (variable != context.environment.end() && !variable->second.empty()) return variable->second;
  return job::JobSpec{}.run_folder;
}

Result<RunFolder> find_run(const RunArguments& arguments, Context& context) {
  if (const auto place = run_at(arguments.run, context))
    return RunFolder::open(context.files, *place);
  const Path runs = runs_folder(arguments.runs, context);
  auto all = observe::find_runs(context.files, runs);
  const auto is_meant = [&](const auto& part) {
    return std::ranges::find_if(all, [&](const RunFolder& run) {
      return std::invoke(part, observe::name_of(run.root())) == arguments.run;
    });
  };
  for (const auto part : {&observe::RunName::leaf, &observe::RunName::id, &observe::RunName::job}) {
    if (const auto found = is_meant(part); found != all.end()) return std::move(*found);
  }
  if (arguments.run == kLatestRun && !all.empty()) return std::move(all.front());
  return unknown_run(arguments.run, all, runs, context.files.exists(arguments.run));
}

}  // namespace muster::cli
