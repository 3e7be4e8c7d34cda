#include "muster/job/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "muster/base/units.h"

namespace muster::job {
namespace {

constexpr std::string_view kIntroduction = R"(# The job file

One YAML file (or JSON, which is YAML) says what a job trains, on what, how, and where results go.
This page is made by `muster help job --markdown`; `muster help job FIELD` shows one field,
`muster help job --schema` gives a JSON Schema for editors; the least and the most of durations and
sizes are checked by `muster validate` only.

The smallest job:

```yaml
model:
  type: mlp
data:
  type: idx
  path: /usr/share/datasets/fashion-mnist
```

)";

constexpr std::string_view kRules = R"(
Booleans are `true` and `false`. Paths are relative to the folder in which muster runs.

**Precedence**: flag > `--set a.b=c` > environment > `quick` (with `--quick`) > job file > default.
The variable of a field is its name in capitals with `_` for `.`, after `MUSTER_`:
`training.max_steps` is `MUSTER_TRAINING_MAX_STEPS`. `muster validate --print-config JOB` shows
every value and where it came from.

**Batch identity**: global_batch_size = micro_batch_size × gradient_accumulation_steps ×
virtual_workers. Give any two of the first three and the third is derived; give only the global one
and each slice is one micro-batch; contradictions are refused. The number of workers is not part of
it, so it never changes the result. Where the global batch is no multiple of virtual_workers, the
slices differ by one sample and the identity holds for the largest.

**Refused**, each with its line, column and what to write instead: unknown keys, duplicate keys,
`yes`/`no`/`on`/`off` for booleans or as unquoted text, numbers with leading zeros, numbers without
their unit, merge keys, anchors, aliases, tags, directives, several documents, tabs as indentation,
text that is not UTF-8, files over 1 MiB, more than 16 levels.

**quick**: a mapping of fields to the values they take with `--quick`, such as
`quick: {training.epochs: 2}`.
)";

std::string units_of_values() {
  return fmt::format(
      "**Values** carry their units: `30s`, `5 min`, `64 MiB`, `5%`, `100 steps`, `1 epoch`.\n"
      "Durations take `{}`, sizes `{}`.",
      fmt::join(usual_names(duration_units()), "`, `"),
      fmt::join(usual_names(size_units()), "`, `"));
}

std::string condition(const Field& field) {
  std::string text;
  for (const OnlyWith* condition : conditions(field.rules)) {
    const auto& [other, values] = *condition;
    if (other.empty()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "only with " : " and ", other,
                        fmt::join(values, ", "));
  }
  return text;
}

// Table cells of Markdown: a bar would end the cell.
std::string cell(std::string text) {
  for (auto at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, 1, '\\');
  }
  return text;
}

std::string code_where_literal(const Field& field) {
  const auto text = default_text(field);
  const bool literal = field.rules.default_text.empty() && !field.rules.required;
  return literal ? fmt::format("`{}`", text) : text;
}

std::string row(const Field& field) {
  auto meaning = std::string(field.rules.doc);
  if (const auto only = condition(field); !only.empty()) meaning += fmt::format(" ({})", only);
  return fmt::format("| `{}` | {} | {} | {} |\n", field.key(), cell(expectation(field)),
                     cell(code_where_literal(field)), cell(meaning));
}

std::string title_of(const Section& section) {
  return section.name.empty() ? "Top level" : fmt::format("`{}`", section.name);
}

}  // namespace

std::string default_text(const Field& field) {
  if (field.rules.required) return "required";
  if (!field.rules.default_text.empty()) return std::string(field.rules.default_text);
  return to_yaml(field.print(JobSpec{}));
}

std::string help_field(const Field& field) {
  std::string text = fmt::format("{}\n  {}\n", field.name, field.rules.doc);
  const auto add = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) text += fmt::format("  {:<12} {}\n", what, value);
  };
  add("expects", expectation(field));
  add("unit", std::string(field.rules.unit));
  add("default", default_text(field));
  add("applies", condition(field));
  add("set by", fmt::format("--set {}=…, {}", field.name, field.variable()));
  return text;
}

std::string help_section(const Section& section, const Fields& fields) {
  std::string text = section.name.empty() ? fmt::format("{}\n", section.doc)
                                          : fmt::format("{}: {}\n", section.name, section.doc);
  for (const auto* field : fields.of(section.name)) {
    text += fmt::format("  {:<36} {} [{}]\n", field->name, field->rules.doc, default_text(*field));
  }
  return text;
}

std::string help_all(const Fields& fields) {
  std::string text =
      "Fields of a job file, with [default]. `muster help job FIELD` tells more about one.\n";
  for (const auto& section : fields.sections()) text += "\n" + help_section(section, fields);
  return text +
         "\nquick: fields and the values they take with --quick, "
         "such as quick: {training.epochs: 2}\n";
}

std::string markdown(const Fields& fields) {
  std::string text = fmt::format("{}{}{}", kIntroduction, units_of_values(), kRules);
  for (const auto& section : fields.sections()) {
    text += fmt::format("\n## {}\n\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                        title_of(section), section.doc);
    for (const auto* field : fields.of(section.name)) text += row(*field);
  }
  return text;
}

}  // namespace muster::job
