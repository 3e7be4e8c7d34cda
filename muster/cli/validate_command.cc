#include "muster/cli/validate_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "muster/base/units.h"
#include "muster/cli/application.h"
#include "muster/cli/job_arguments.h"
#include "muster/cli/json_line.h"
#include "muster/job/enum_names.h"
#include "muster/job/mesh_axes.h"

namespace muster::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ValidateArguments {
  JobArguments job;
  bool print_config = false;
  bool json = false;
};

// Where the slices differ by a sample, the product is not the batch: it is that of the larger ones.
std::string batch_identity(const job::TrainingSpec& training) {
  const std::int64_t batch = training.global_batch_size;
  const std::int64_t slices = training.virtual_workers;
  if (batch % slices != 0)
    return fmt::format("batch {} in {} slices of {} or {}", batch, slices, batch / slices,
                       batch / slices + 1);
  return fmt::format("batch {} = {} × {} × {} (micro × accumulation × virtual workers)", batch,
                     training.micro_batch_size, training.gradient_accumulation_steps, slices);
}

std::string length_of(const job::TrainingSpec& training) {
  std::string text;
  if (training.epochs) text = counted(*training.epochs, "epoch");
  if (training.epochs && training.max_steps) text += " or ";
  if (training.max_steps) text += counted(*training.max_steps, "step");
  return text;
}

// An own source may need no path.
std::string place_of_data(const job::Job& job) {
  const std::string& path = job.spec.data.path;
  return path.empty() ? job.fields->find("data.type")->print(job.spec).text : path;
}

std::string summary(const job::Job& job) {
  const auto& spec = job.spec;
  const bool hybrid = spec.strategy.type == job::StrategyType::kHybrid;
  return fmt::format("{}: valid: {} on {}, {}, {}, {}, learning rate {}{}", job.path.string(),
                     job.fields->find("model.type")->print(spec).text, place_of_data(job),
                     length_of(spec.training), batch_identity(spec.training),
                     to_string(spec.optimizer.type), spec.optimizer.learning_rate,
                     hybrid ? ", workers as " + mesh_text(spec.strategy.mesh) : "");
}

void tell_json(const job::CheckedJob& checked, Context& context) {
  Json answer = {{"valid", checked.job.has_value()},
                 {"errors", Json::parse(to_json(checked.errors))}};
  if (checked.job) answer["job"] = Json::parse(to_json(*checked.job));
  context.out << json_line(answer);
}

void tell(const job::CheckedJob& checked, bool print_config, Context& context) {
  if (!checked.job) {
    context.err << context.fitted_to_err(render(checked.errors)) << "\n";
  } else if (print_config) {
    context.out << to_yaml(*checked.job, true, context.width_of_out());
  } else {
    context.out << context.fitted_to_out(summary(*checked.job)) << "\n";
  }
}

ExitCode validate(const ValidateArguments& arguments, Context& context) {
  const Path path = arguments.job.path;
  warn_of_stray_variables(context);
  const auto text = job::read_job_text(context.files, path);
  if (!text) return report(context, text.error());
  const auto checked = check_job(*text, path, load_options(arguments.job, context));
  if (context.answers_json(arguments.json)) {
    tell_json(checked, context);
  } else {
    tell(checked, arguments.print_config, context);
  }
  return checked.job ? ExitCode::kDone : ExitCode::kUsage;
}

}  // namespace

void add_validate_command(CLI::App& app, Context& context) {
  auto& command =
      add_command(app, "validate", "Check a job file and show what it means",
                  {"muster validate jobs/fashion.yaml",
                   "muster validate --print-config --set training.epochs=3 jobs/gpt.yaml"});
  auto arguments = std::make_shared<ValidateArguments>();
  add_job_arguments(command, arguments->job);
  command.add_flag("--print-config", arguments->print_config,
                   "Print every value and where it came from");
  command.add_flag("--json", arguments->json, "Answer in JSON");
  command.callback([arguments, &context] {
    context.action = [arguments, &context] { return validate(*arguments, context); };
  });
}

}  // namespace muster::cli
