#include "muster/job/variables.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/job/diagnostic.h"

namespace muster::job {
namespace {

// What the variable that sets nothing was meant to say; empty where it looks like no field.
std::string meaning_of_stray(const Fields& fields, const std::string& variable) {
  const auto is_meant = [&](const Field& field) {
    return !field.section().empty() && variable_name(field.key()) == variable;
  };
  const auto meant = std::ranges::find_if(fields.all(), is_meant);
  if (meant != fields.all().end())
    return fmt::format("`{}` is set by {}", meant->name, meant->variable());
  const auto near = near_variable(fields, variable);
  return near.empty() ? near : fmt::format("did you mean {}?", near);
}

}  // namespace

std::string normalised(std::string_view variable) {
  std::string text(variable);
  for (auto at = text.find("__"); at != std::string::npos; at = text.find("__")) text.erase(at, 1);
  return text;
}

const Field* field_of_variable(const Fields& fields, std::string_view variable) {
  const auto found = std::ranges::find_if(
      fields.all(), [&](const Field& field) { return field.variable() == variable; });
  return found == fields.all().end() ? nullptr : &*found;
}

const Section* section_of_variable(const Fields& fields, std::string_view variable) {
  const auto begins = [word = fmt::format("{}_", variable)](const Section& section) {
    return !section.name.empty() && word.starts_with(variable_name(section.name) + "_");
  };
  const auto found = std::ranges::find_if(fields.sections(), begins);
  return found == fields.sections().end() ? nullptr : &*found;
}

std::string near_variable(const Fields& fields, std::string_view variable) {
  // Without the prefix, which makes any two variables look alike.
  std::vector<std::string> names;
  for (const auto& field : fields.all())
    names.push_back(field.variable().substr(kVariablePrefix.size()));
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = near_word(variable.substr(kVariablePrefix.size()), known);
  return near.empty() ? near : fmt::format("{}{}", kVariablePrefix, near);
}

std::vector<std::string> stray_variables(const std::map<std::string, std::string>& environment,
                                         const Fields& fields) {
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) {
    const auto variable = normalised(name);
    // One that begins with a group is told as an error of the job.
    if (!name.starts_with(kVariablePrefix) || field_of_variable(fields, variable) ||
        section_of_variable(fields, variable))
      continue;
    if (const auto meaning = meaning_of_stray(fields, variable); !meaning.empty())
      lines.push_back(fmt::format("the variable {} sets nothing; {}", name, meaning));
  }
  return lines;
}

}  // namespace muster::job
