#include "muster/cli/run_filter.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <utility>

#include "muster/base/units.h"
#include "muster/job/fields.h"
#include "muster/job/load.h"
#include "muster/job/yaml.h"

namespace muster::cli {
namespace {

std::pair<std::string, std::string> split(const std::string& text) {
  const auto equals = text.find('=');
  return {text.substr(0, equals), equals == text.npos ? "" : text.substr(equals + 1)};
}

// As a job has it that says so: 0.10 is 0.1, 20% is 0.2, and `~/` begins in `home`.
Result<std::string> value_in_job(const job::Field& field, const std::string& word,
                                 const std::string& home) {
  const auto source = std::make_shared<const job::Source>(job::Source{{}, word, 0});
  std::vector<job::Diagnostic> wrong;
  job::YamlNode node = job::read_yaml_value(source, 0, wrong);
  if (field.type == job::FieldType::kText && node.text.starts_with("~/"))
    node.text.replace(0, 1, home);
  job::JobSpec spec;
  if (wrong.empty()) wrong = field.read(node, spec);
  if (wrong.empty()) return field.print(spec).text;
  const auto& [place, message, help] = wrong.front();
  return fail(ErrorCode::kInvalid, help.empty() ? message : fmt::format("{}; {}", message, help));
}

bool has_values(const std::vector<std::string>& wanted, const observe::RunInfo& run,
                Context& context) {
  const auto job =
      job::load_job(context.files, run.root / "resolved.yaml", {.fields = context.fields});
  if (!job) return false;
  const std::string home = context.variable("HOME").value_or("~");
  return std::ranges::all_of(wanted, [&](const std::string& text) {
    const auto [name, word] = split(text);
    const job::Field* field = context.fields->find(name);
    return field != nullptr && value_in_job(*field, word, home) == field->print(job->spec).text;
  });
}

// Empty: it is one.
std::string wrong_state(const std::string& word) {
  const bool known = std::ranges::any_of(
      observe::kRunStates, [&](observe::RunState state) { return to_string(state) == word; });
  return known ? ""
               : fmt::format("expected running, finished, stopped or failed, found `{}`", word);
}

}  // namespace

void add_filter_options(CLI::App& command, RunFilter& filter) {
  command.add_option("--job", filter.job, "Only runs of the job with this name")->type_name("NAME");
  command.add_option("--state", filter.states, "Only those that are so; several with commas")
      ->delimiter(',')
      ->check(wrong_state)
      ->type_name("running|finished|stopped|failed")
      ->allow_extra_args(false);
  command
      .add_option("--where", filter.fields, "Only those whose job has this value; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
}

Status check_filter(const RunFilter& filter, const job::Fields& fields) {
  std::vector<std::string_view> known;
  for (const auto& field : fields.all()) known.push_back(field.name);
  for (const std::string& text : filter.fields) {
    const auto [name, word] = split(text);
    const job::Field* field = fields.find(name);
    if (field != nullptr && text.find('=') != text.npos) {
      const auto value = value_in_job(*field, word, "~");
      if (value) continue;
      return fail(ErrorCode::kInvalid, fmt::format("--where {}: {}", name, value.error().message));
    }
    const auto near = nearest(name, known);
    return fail(
        ErrorCode::kInvalid,
        fmt::format("--where {}: expected a field of the job file and its value, as in "
                    "optimizer.learning_rate=0.1{}",
                    text,
                    near.empty() || near == name ? "" : fmt::format("; did you mean `{}`?", near)));
  }
  return ok();
}

bool passes(const RunFilter& filter, const observe::RunInfo& run, Context& context) {
  if (!filter.job.empty() && run.name.job != filter.job) return false;
  const auto state = to_string(run.state);
  if (!filter.states.empty() && std::ranges::find(filter.states, state) == filter.states.end())
    return false;
  return filter.fields.empty() || has_values(filter.fields, run, context);
}

}  // namespace muster::cli
