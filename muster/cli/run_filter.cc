#include "muster/cli/run_filter.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/units.h"
#include "muster/job/fields.h"
#include "muster/job/load.h"

namespace muster::cli {
namespace {

std::pair<std::string, std::string> split(const std::string& text) {
  const auto equals = text.find('=');
  return {text.substr(0, equals), equals == text.npos ? "" : text.substr(equals + 1)};
}

// 0.10 is 0.1, and a word needs no quotes.
bool is_value(const nlohmann::json& value, const std::string& word) {
  if (value.is_string()) return value.get<std::string>() == word;
  return value == nlohmann::json::parse(word, nullptr, false);
}

bool has_values(const std::vector<std::string>& wanted, const observe::RunInfo& run,
                Context& context) {
  const auto job =
      job::load_job(context.files, run.root / "resolved.yaml", {.fields = context.fields});
  if (!job) return false;
  const auto values = nlohmann::json::parse(job::to_json(*job));
  return std::ranges::all_of(wanted, [&](const std::string& text) {
    const auto [field, word] = split(text);
    return values.contains(field) && is_value(values[field]["value"], word);
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
    const std::string field = split(text).first;
    if (fields.find(field) != nullptr && text.find('=') != text.npos) continue;
    const auto near = nearest(field, known);
    return fail(
        ErrorCode::kInvalid,
        fmt::format(
            "--where {}: expected a field of the job file and its value, as in "
            "optimizer.learning_rate=0.1{}",
            text, near.empty() || near == field ? "" : fmt::format("; did you mean `{}`?", near)));
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
