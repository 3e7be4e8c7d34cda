// A resolved job as YAML and JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/text_width.h"
#include "muster/job/fields.h"
#include "muster/job/load.h"

namespace muster::job {
namespace {

constexpr std::size_t kCommentColumn = 44;

// Fields of another model or data type would be refused when the YAML is read again.
bool applies(const Field& field, const Job& job) {
  return std::ranges::all_of(conditions(field.rules), [&](const OnlyWith* condition) {
    return job.fields->holds(*condition, job.spec);
  });
}

struct YamlStyle {
  bool with_origins = false;
  std::size_t width = 0;  // columns; 0: as many as need be
};

std::string commented(const std::string& text, const std::string& comment, std::size_t indent,
                      std::size_t width) {
  const std::size_t behind = std::string_view("  # ").size() + display_width(comment);
  if (width == 0 || display_width(text) + behind <= width) {
    const std::size_t column =
        width == 0 ? kCommentColumn : std::min(kCommentColumn, width - behind);
    return fmt::format("{:<{}}  # {}\n", text, column, comment);
  }
  const std::size_t before = indent + std::string_view("# ").size();
  std::string lines;
  for (const std::string& line : wrapped(comment, width > before ? width - before : 1))
    lines += fmt::format("{:{}}# {}\n", "", indent, line);
  return lines + text + "\n";
}

std::string line_of(const Job& job, const Field& field, std::size_t indent,
                    const YamlStyle& style) {
  const auto text =
      fmt::format("{:{}}{}: {}", "", indent, field.key(), to_yaml(field.print(job.spec)));
  if (!style.with_origins) return text + "\n";
  return commented(text, describe(job.origins.at(field.name)), indent, style.width);
}

// A section may hold nothing but sections.
bool has_sections(const Job& job, const Section& section) {
  if (section.name.empty()) return false;
  const std::string begin = fmt::format("{}.", section.name);
  return std::ranges::any_of(job.fields->all(), [&](const Field& field) {
    return field.name.starts_with(begin) && applies(field, job);
  });
}

void print_section(const Job& job, const Section& section, const YamlStyle& style,
                   std::string& text) {
  std::string lines;
  const auto depth =
      section.name.empty() ? 0 : 1 + std::count(section.name.begin(), section.name.end(), '.');
  const auto indent = static_cast<std::size_t>(2 * depth);
  for (const auto* field : job.fields->of(section.name)) {
    if (applies(*field, job)) lines += line_of(job, *field, indent, style);
  }
  if (lines.empty() && !has_sections(job, section)) return;
  if (!section.name.empty()) {
    const auto key = section.name.substr(section.name.rfind('.') + 1);
    text += fmt::format("{:{}}{}:\n", "", indent - 2, key);
  }
  text += lines;
}

}  // namespace

std::string to_yaml(const Job& job, bool with_origins, std::size_t width) {
  std::string text;
  for (const auto& section : job.fields->sections())
    print_section(job, section, {with_origins, width}, text);
  return text;
}

std::vector<std::pair<std::string, std::string>> values_of(const Job& job) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const auto& field : job.fields->all()) {
    if (applies(field, job)) values.emplace_back(field.name, field.print(job.spec).text);
  }
  return values;
}

std::string to_json(const Job& job) {
  auto values = nlohmann::ordered_json::object();
  for (const auto& field : job.fields->all()) {
    if (!applies(field, job)) continue;
    values[field.name] = {{"value", nlohmann::ordered_json::parse(to_json(field.print(job.spec)))},
                          {"origin", describe(job.origins.at(field.name))}};
  }
  return values.dump(2);
}

}  // namespace muster::job
