#include "muster/job/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/lowered.h"
#include "muster/base/utf8.h"
#include "muster/job/text_check.h"

namespace muster::job {
namespace {

std::string noun(FieldType type, const FieldRules& rules) {
  switch (type) {
    case FieldType::kInteger:
      return "a whole number";
    case FieldType::kNumber:
      return rules.unit == kShare ? "a share such as `5%` or 0.05" : "a number";
    case FieldType::kBoolean:
      return "true or false";
    case FieldType::kText:
      return "text";
    case FieldType::kChoice:
      return "one of ";
    case FieldType::kDuration:
      return "a duration such as `30s` or `5 min`";
    case FieldType::kBytes:
      return "a size such as `64 MiB` or `1 GB`";
    case FieldType::kInterval:
      return "an interval: ";
    case FieldType::kIntegers:
      return "a list of whole numbers such as [128, 64]";
    case FieldType::kNumbers:
      return "a list of numbers such as [0.5, 0.25]";
    case FieldType::kTexts:
      return "a list of text such as [a, b]";
    case FieldType::kGroups:
      return "a list of mappings such as [{match: \"*.bias\", weight_decay: 0}]";
    case FieldType::kPlacement:
      return "a mapping of patterns to whole numbers such as {embedding: 0, \"layer[0-3]\": 0, "
             "\"*\": 1}";
  }
  return {};
}

std::string_view example_of(Interval::Unit unit) {
  switch (unit) {
    case Interval::Unit::kSteps:
      return "`100 steps`";
    case Interval::Unit::kEpochs:
      return "`1 epoch`";
    case Interval::Unit::kFraction:
      return "`5%`";
    case Interval::Unit::kTime:
      return "`5 min`";
    case Interval::Unit::kEnd:
      return "`end`";
    case Interval::Unit::kNever:
      return "`never`";
  }
  return {};
}

std::string alternatives(const std::vector<Interval::Unit>& units) {
  std::string text;
  for (std::size_t at = 0; at < units.size(); ++at) {
    if (at > 0) text += at + 1 == units.size() ? " or " : ", ";
    text += example_of(units[at]);
  }
  return text;
}

// 2 -> "2 s" for durations, "2 KiB" for sizes.
std::string limit_text(FieldType type, double limit) {
  if (type == FieldType::kDuration) {
    return to_string(Duration(static_cast<Duration::rep>(limit * 1e9)));
  }
  if (type == FieldType::kBytes) return to_string(Bytes{static_cast<std::uint64_t>(limit)});
  return fmt::format("{}", limit);
}

std::string limits(FieldType type, const FieldRules& rules) {
  std::vector<std::string> parts;
  if (std::isfinite(rules.min)) parts.push_back("at least " + limit_text(type, rules.min));
  if (std::isfinite(rules.above)) parts.push_back("above " + limit_text(type, rules.above));
  if (std::isfinite(rules.max)) parts.push_back("at most " + limit_text(type, rules.max));
  const auto share = std::ranges::find(rules.units, Interval::Unit::kFraction);
  if (type == FieldType::kInterval && share != rules.units.end())
    parts.emplace_back("at most 100%");
  if (std::isfinite(rules.below)) parts.push_back("below " + limit_text(type, rules.below));
  return fmt::format("{}", fmt::join(parts, " and "));
}

// Whether a plain (unquoted) YAML scalar of this text is read back as the same text.
bool plain_is_safe(std::string_view text) {
  if (text.empty() || text.front() == ' ' || text.back() == ' ') return false;
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_-./ %+").find(c) != std::string_view::npos;
  };
  static constexpr std::string_view kWords[] = {"on", "off",  "yes",   "no",  "y",
                                                "n",  "true", "false", "null"};
  const std::string lower = lowered(std::string(text));
  return (std::isalnum(static_cast<unsigned char>(text.front())) || text.front() == '/') &&
         std::all_of(text.begin(), text.end(), allowed) &&
         std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

// JSON takes some control characters as they are (U+007F to U+009F), the reader of job files none.
std::string with_escaped_controls(std::string_view json) {
  std::string text;
  while (!json.empty()) {
    const auto length = std::max<std::size_t>(1, utf8_length(json));
    const auto code = utf8_code(json, length);
    text += is_control(code) ? fmt::format("\\u{:04x}", code) : std::string(json.substr(0, length));
    json.remove_prefix(length);
  }
  return text;
}

}  // namespace

std::string_view Field::section() const noexcept {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? std::string_view() : std::string_view(name).substr(0, dot);
}

std::string_view Field::key() const noexcept {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : std::string_view(name).substr(dot + 1);
}

std::string Field::variable() const { return variable_name(name); }

std::string variable_name(std::string_view field) {
  std::string text = fmt::format("MUSTER_{}", field);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c == '.' ? '_' : static_cast<char>(std::toupper(c));
  });
  return text;
}

std::string expectation(FieldType type, const FieldRules& rules,
                        const std::vector<std::string_view>& choices) {
  std::string text = noun(type, rules);
  if (type == FieldType::kTexts && !choices.empty())
    text = fmt::format("a list of {}", fmt::join(choices, ", "));
  if (type == FieldType::kChoice) text += fmt::format("{}", fmt::join(choices, ", "));
  if (type == FieldType::kInterval) text += alternatives(rules.units);
  if (const auto limit = limits(type, rules); !limit.empty()) {
    const bool list = type == FieldType::kIntegers || type == FieldType::kNumbers ||
                      type == FieldType::kPlacement;
    text += fmt::format(", {}{}", list ? "each " : "", limit);
  }
  if (!rules.unset.empty()) text += fmt::format(", or `{}`", rules.unset);
  return text;
}

std::string expectation(const Field& field) {
  return expectation(field.type, field.rules, field.choices);
}

std::string to_json(const Printed& value) {
  if (!value.is_text) return value.text;
  return with_escaped_controls(
      nlohmann::json(value.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string to_yaml(const Printed& value) {
  return value.is_text && !plain_is_safe(value.text) ? to_json(value) : value.text;
}

}  // namespace muster::job
