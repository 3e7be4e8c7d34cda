#include "muster/cli/compare_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "muster/app/launch/launch.h"
#include "muster/base/random.h"
#include "muster/base/trimmed.h"
#include "muster/cli/application.h"
#include "muster/cli/chosen_job.h"
#include "muster/cli/compared_run.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/json_line.h"
#include "muster/cli/machine.h"
#include "muster/cli/run_options.h"
#include "muster/cli/started_train.h"
#include "muster/job/mesh_axes.h"
#include "muster/job/name.h"
#include "muster/observe/comparison.h"
#include "muster/observe/run_folder.h"

namespace muster::cli {
namespace {

struct CompareArguments {
  JobArguments job;
  std::string workers;
  std::vector<std::string> strategies;
  std::vector<std::string> variants;  // "NAME: FIELD=VALUE; FIELD=VALUE"
  bool json = false;
};

// One way to train the job: a name for its line and its folder, and what is set for it.
struct Variant {
  std::string name;
  std::vector<std::string> sets;
};

constexpr std::string_view kBlanks = " \t";

Result<Variant> read_variant(const std::string& text) {
  const auto colon = text.find(':');
  Variant variant{std::string(trimmed(std::string_view(text).substr(0, colon), kBlanks)), {}};
  std::string_view rest = colon == text.npos ? "" : std::string_view(text).substr(colon + 1);
  while (!rest.empty()) {
    const auto end = rest.find(';');
    if (const auto set = trimmed(rest.substr(0, end), kBlanks); !set.empty())
      variant.sets.emplace_back(set);
    rest = end == rest.npos ? "" : rest.substr(end + 1);
  }
  if (colon != text.npos && job::is_name(variant.name)) return variant;
  return fail(ErrorCode::kInvalid,
              fmt::format("--variant: expected `NAME: FIELD=VALUE; FIELD=VALUE`, found `{}`; for "
                          "the name use {}",
                          text, job::kNameRule));
}

// "shard2+tensor2" as the fields of that mesh; empty: it is none.
std::vector<std::string> mesh_fields(std::string_view text) {
  if (text.empty()) return {};
  std::vector<std::string> fields = {"strategy.type=hybrid"};
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find('+'));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const std::size_t digits = std::min(one.size(), one.find_first_of("0123456789"));
    const auto* axis =
        std::ranges::find(job::kMeshAxes, one.substr(0, digits), &job::MeshAxis::name);
    if (axis == job::kMeshAxes.end() || digits == one.size()) return {};
    fields.push_back(fmt::format("{}={}", axis->field, one.substr(digits)));
  }
  return fields;
}

// strategy.type, a stage of ZeRO as zero1, zero2, zero3, or a mesh.
Variant variant_of(const std::string& strategy) {
  constexpr std::string_view kZero = "zero";
  const std::string stage = strategy.starts_with(kZero) ? strategy.substr(kZero.size()) : "";
  if (stage == "1" || stage == "2" || stage == "3")
    return {strategy, {"strategy.type=sharded", "strategy.zero_stage=" + stage}};
  if (auto mesh = mesh_fields(strategy); !mesh.empty()) return {strategy, std::move(mesh)};
  return {strategy, {"strategy.type=" + strategy}};
}

Result<std::vector<Variant>> read_variants(const CompareArguments& arguments) {
  std::vector<Variant> variants;
  variants.reserve(arguments.strategies.size() + arguments.variants.size());
  for (const std::string& strategy : arguments.strategies) variants.push_back(variant_of(strategy));
  for (const std::string& text : arguments.variants) {
    MUSTER_ASSIGN(Variant variant, read_variant(text));
    variants.push_back(std::move(variant));
  }
  if (variants.empty()) {
    return fail(ErrorCode::kInvalid,
                "nothing to compare; name --strategies data,sharded or ways of your own with "
                "--variant `NAME: FIELD=VALUE`");
  }
  for (auto one = variants.begin(); one != variants.end(); ++one) {
    const auto twin = std::ranges::find(one + 1, variants.end(), one->name, &Variant::name);
    if (twin == variants.end()) continue;
    return fail(ErrorCode::kInvalid,
                fmt::format("two ways to train are named `{}`; give each a name of its own with "
                            "--variant",
                            one->name));
  }
  return variants;
}

// Every variant's job; all that is wrong with any of them at once.
Result<std::vector<job::Job>> load_all(const CompareArguments& arguments,
                                       const std::vector<Variant>& variants, Context& context) {
  const Path path = arguments.job.path;
  warn_of_stray_variables(context);
  MUSTER_ASSIGN(const std::string text, job::read_job_text(context.files, path));
  std::vector<job::Job> jobs;
  std::string errors;
  for (const Variant& variant : variants) {
    PlanRequest request{.job = path, .options = load_options(arguments.job, context)};
    job::LoadOptions& options = request.options;
    options.sets.insert(options.sets.end(), variant.sets.begin(), variant.sets.end());
    add_workers(arguments.workers, context, options);
    auto checked = check_job(text, path, options);
    if (checked.job) {
      MUSTER_TRY(app::check_startable(context.files, *checked.job));
      MUSTER_ASSIGN(ChosenJob chosen,
                    choose_values(request, std::move(*checked.job), nullptr, {}, context));
      for (const std::string& why : chosen.why) context.logger()->info("{}", why);
      jobs.push_back(std::move(chosen.job));
    } else {
      errors +=
          fmt::format("{}{}: {}", errors.empty() ? "" : "\n", variant.name, render(checked.errors));
    }
  }
  if (errors.empty()) return jobs;
  return fail(ErrorCode::kInvalid, errors);
}

struct Outcome {
  std::vector<observe::ComparedRun> runs;
  bool left_something = false;      // one of them did
  ExitCode code = ExitCode::kDone;  // of the first that did not end well
};

// Reads what the run left; of one that left nothing, that it failed.
void add_run(Outcome& outcome, const std::string& name, const job::JobSpec& job, ExitCode code,
             Files& files) {
  const auto run = observe::RunFolder::open(files, Path(job.run_folder) / job.name / "latest");
  auto read = run ? compared_run(name, *run, files) : Result<observe::ComparedRun>(run.error());
  observe::ComparedRun compared;
  if (read) {
    compared = std::move(*read);
  } else {
    compared.name = name;
    compared.run.ended.reason = read.error().message;
  }
  compared.run.ended.completed = compared.run.ended.completed && code == ExitCode::kDone;
  outcome.left_something = outcome.left_something || read.has_value();
  outcome.runs.push_back(std::move(compared));
  if (outcome.code == ExitCode::kDone) outcome.code = code;
}

bool was_stopped(ExitCode code) { return static_cast<int>(code) > 128; }

// One after the other; what one of them does wrong is no reason not to try the next.
Outcome train_all(const std::vector<Variant>& variants, std::vector<job::Job>& jobs,
                  const Path& folder, const Path& worker, Context& context) {
  Outcome outcome;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    job::JobSpec& job = jobs[i].spec;
    job.run_folder = folder.native();
    job.name = variants[i].name;
    if (context.log != LogFormat::kJson) {
      context.out << fmt::format("{}{} of {}: {}\n", i == 0 ? "" : "\n", i + 1, jobs.size(),
                                 variants[i].name)
                  << std::flush;
    }
    app::LaunchOptions options;
    options.worker_program = worker;
    options.carried = carried_along(context);
    options.folder = context.machine.folder();
    options.console = console_options(job, context);
    const auto launched = app::launch(jobs[i], options, context.logger());
    const ExitCode code = launched ? *launched : report(context, launched.error());
    add_run(outcome, variants[i].name, job, code, context.files);
    if (was_stopped(code)) break;
  }
  return outcome;
}

Status conclude(const Outcome& outcome, const std::string& name, const Path& folder,
                Context& context) {
  std::vector<observe::RunFigures> figures;
  figures.reserve(outcome.runs.size());
  for (const auto& run : outcome.runs) figures.push_back(observe::figures_of(run));
  const nlohmann::ordered_json json = {{"comparison", observe::comparison_json(figures)},
                                       {"folder", folder.native()}};
  MUSTER_TRY(write_atomically(context.files, folder / "comparison.json", json.dump(2) + "\n"));
  MUSTER_TRY(write_atomically(
      context.files, folder / "comparison.html",
      observe::render_comparison(fmt::format("{} compared", name), outcome.runs, folder)));
  if (outcome.left_something) MUSTER_TRY(observe::point_latest_at(context.files, folder));
  if (context.log == LogFormat::kJson) {
    context.out << json_line(json);
  } else {
    context.out << "\n"
                << observe::comparison_text(figures, context.width_of_out())
                << fmt::format("\npicture: {}\n", (folder / "comparison.html").native());
  }
  return ok();
}

Result<ExitCode> compare(const CompareArguments& arguments, Context& context) {
  MUSTER_ASSIGN(const auto others, started_with_others(context));
  if (others)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[compare] {} processes were started by {}, and each would compare by "
                            "itself; start one, on a host that has the workers",
                            others->ranks, others->launcher));
  MUSTER_ASSIGN(const auto variants, read_variants(arguments));
  MUSTER_ASSIGN(const Path worker, worker_program(context));
  MUSTER_ASSIGN(auto jobs, load_all(arguments, variants, context));
  const std::string name = jobs.front().spec.name;
  const Path parent = Path(jobs.front().spec.run_folder) / (name + ".compare");
  MUSTER_ASSIGN(const Path folder,
                observe::create_stamped_folder(context.files, parent, context.clock.wall(),
                                               system_entropy()));
  const Outcome outcome = train_all(variants, jobs, folder, worker, context);
  MUSTER_TRY(conclude(outcome, name, folder, context));
  return outcome.code;
}

}  // namespace

void add_compare_command(CLI::App& app, Context& context) {
  auto& command = add_command(
      app, "compare", "Train a job in several ways and show what each costs",
      {"muster compare jobs/gpt.yaml --quick --workers 2 --strategies data,sharded,pipeline",
       "muster compare job.yaml --variant 'a: training.mode=ordered' --variant 'b: "
       "training.mode=fast'"});
  auto arguments = std::make_shared<CompareArguments>();
  add_job_arguments(command, arguments->job);
  add_workers_option(command, arguments->workers);
  command
      .add_option("--strategies", arguments->strategies,
                  "Values of strategy.type, zero1, zero2, zero3, or axes of a mesh such as "
                  "shard2+tensor2; several with commas")
      ->delimiter(',')
      ->type_name("TYPE")
      ->allow_extra_args(false);
  command
      .add_option("--variant", arguments->variants,
                  "Another way: `NAME: FIELD=VALUE; FIELD=VALUE`; may be repeated")
      ->type_name("WAY")
      ->allow_extra_args(false);
  command.add_flag("--json", arguments->json, "Answer in JSON, the lines of the trainings too");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] {
      // What the trainings tell comes by the same way as the answer.
      if (arguments->json) context.log = LogFormat::kJson;
      const auto code = compare(*arguments, context);
      return code ? *code : report(context, code.error());
    };
  });
}

}  // namespace muster::cli
