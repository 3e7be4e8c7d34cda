// The JSON Schema of a job, for editors that complete and check while one types.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/units.h"
#include "muster/job/reference.h"

namespace muster::job {
namespace {

using Json = nlohmann::ordered_json;

// As the loader reads numbers: without sign and leading zero.
constexpr std::string_view kNumber = "((0|[1-9][0-9]*)(\\.[0-9]*)?|\\.[0-9]+)([eE][+-]?[0-9]+)?";

std::string quantity_pattern(const std::vector<std::string_view>& units) {
  return fmt::format("{} *({})", kNumber, fmt::join(units, "|"));
}

// A number alone is refused in a job file.
std::string quantity_pattern(std::span<const QuantityUnit> units) {
  std::vector<std::string_view> names;
  for (const QuantityUnit& unit : units)
    if (!unit.name.empty()) names.push_back(unit.name);
  return quantity_pattern(names);
}

void add_limits(Json& schema, const FieldRules& rules) {
  if (std::isfinite(rules.min)) schema["minimum"] = rules.min;
  if (std::isfinite(rules.above)) schema["exclusiveMinimum"] = rules.above;
  if (std::isfinite(rules.max)) schema["maximum"] = rules.max;
  if (std::isfinite(rules.below)) schema["exclusiveMaximum"] = rules.below;
}

Json number(std::string_view type, const FieldRules& rules) {
  Json schema = {{"type", type}};
  add_limits(schema, rules);
  if (rules.excluded) schema["not"] = {{"const", *rules.excluded}};
  return schema;
}

Json matching(const std::string& pattern) { return {{"type", "string"}, {"pattern", pattern}}; }

// Up to 100, itself included or not; one with an exponent may be any.
std::string percentage_pattern(bool takes_all) {
  return fmt::format("({}[1-9]?[0-9](\\.[0-9]*)?|\\.[0-9]+|[0-9.]+[eE][-+]?[0-9]+)",
                     takes_all ? "100(\\.0*)?|" : "");
}

std::string pattern_of(Interval::Unit unit) {
  switch (unit) {
    case Interval::Unit::kSteps:
      return "(0|[1-9][0-9]*)(\\.0*)? *steps?";
    case Interval::Unit::kEpochs:
      return quantity_pattern(std::vector<std::string_view>{"epochs?"});
    case Interval::Unit::kFraction:
      return percentage_pattern(true) + " *%";
    case Interval::Unit::kTime:
      return quantity_pattern(duration_units());
    case Interval::Unit::kEnd:
      return "end";
    case Interval::Unit::kNever:
      return "never";
  }
  return {};
}

// Of the field's own units; where it must be above 0, a number with a digit that is not.
std::string interval_pattern(const FieldRules& rules) {
  std::vector<std::string> units;
  units.reserve(rules.units.size());
  for (const auto unit : rules.units) units.push_back(pattern_of(unit));
  return fmt::format("^{}({})$", std::isfinite(rules.above) ? "(?=.*[1-9]|[a-z])" : "",
                     fmt::join(units, "|"));
}

// Of a duration or a size; where 0 is too little, with a digit that is not.
Json quantity(std::span<const QuantityUnit> units, const FieldRules& rules) {
  const bool takes_nothing = rules.min <= 0 && rules.above < 0;
  return matching(
      fmt::format("^{}{}$", takes_nothing ? "" : "(?=.*[1-9])", quantity_pattern(units)));
}

// A number without quotes is taken for its digits.
Json any_text(const FieldRules& rules = {}) {
  Json schema = {{"type", Json::array({"string", "number"})}};
  if (!rules.pattern.empty()) schema["pattern"] = rules.pattern;
  return schema;
}

// A number or a percentage.
Json share(const FieldRules& rules) {
  const std::string percentage =
      fmt::format("^{}{}%$", std::isfinite(rules.above) ? "(?=.*[1-9])" : "",
                  percentage_pattern(!std::isfinite(rules.below)));
  return {{"anyOf", Json::array({number("number", rules), matching(percentage)})}};
}

Json list_of(Json item, const FieldRules& rules) {
  Json schema = {{"type", "array"}, {"items", std::move(item)}};
  if (rules.least_entries > 0) schema["minItems"] = rules.least_entries;
  return schema;
}

// A text stands for a list of one.
Json texts(const FieldRules& rules, const std::vector<std::string_view>& choices = {}) {
  const Json item = choices.empty() ? any_text(rules) : Json{{"enum", choices}};
  return {{"anyOf", Json::array({item, list_of(item, rules)})}};
}

constexpr std::string_view kDataType = "data.type";
constexpr std::string_view kDataPath = "data.path";

std::vector<std::string_view> own_data(const Fields& fields) {
  std::vector<std::string_view> names;
  for (const OwnComponent& component : fields.own())
    if (component.kind == OwnKind::kData) names.emplace_back(component.name);
  return names;
}

Json group() {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"properties",
           {{"match", texts({.least_entries = 1})},
            {"learning_rate_factor", {{"type", "number"}, {"exclusiveMinimum", 0}}},
            {"weight_decay", {{"type", "number"}, {"minimum", 0}}}}},
          {"required", Json::array({"match"})}};
}

Json value_schema(const Field& field) {
  switch (field.type) {
    case FieldType::kInteger:
      return number("integer", field.rules);
    case FieldType::kNumber:
      return field.rules.unit == kShare ? share(field.rules) : number("number", field.rules);
    case FieldType::kBoolean:
      return {{"type", "boolean"}};
    case FieldType::kText:
      return any_text(field.rules);
    case FieldType::kChoice:
      return {{"enum", field.choices}};
    case FieldType::kDuration:
      return quantity(duration_units(), field.rules);
    case FieldType::kBytes:
      return quantity(size_units(), field.rules);
    case FieldType::kInterval:
      return matching(interval_pattern(field.rules));
    case FieldType::kIntegers:
      return list_of(number("integer", field.rules), field.rules);
    case FieldType::kNumbers:
      return list_of(number("number", field.rules), field.rules);
    case FieldType::kTexts:
      return texts(field.rules, field.choices);
    case FieldType::kGroups:
      return list_of(group(), field.rules);
    case FieldType::kPlacement:
      return {{"type", "object"}, {"additionalProperties", number("integer", field.rules)}};
  }
  return {};
}

// The value, or the word for none.
Json optional_schema(const Field& field) {
  if (field.rules.unset.empty()) return value_schema(field);
  return {{"anyOf", Json::array({value_schema(field), {{"const", field.rules.unset}}})}};
}

// Of quantities the units and the least and the most, which no pattern says.
std::string description(const Field& field) {
  const bool is_quantity = field.type == FieldType::kDuration || field.type == FieldType::kBytes ||
                           field.type == FieldType::kInterval;
  std::string text(field.rules.doc);
  return is_quantity ? fmt::format("{} Expected: {}.", text, expectation(field)) : text;
}

Json field_schema(const Field& field) {
  Json schema = optional_schema(field);
  schema["description"] = description(field);
  if (!field.rules.required && field.rules.default_text.empty()) {
    schema["default"] = Json::parse(to_json(field.print(JobSpec{})));
  }
  return schema;
}

Json object(std::string_view doc) {
  return {{"type", "object"},
          {"description", doc},
          {"additionalProperties", false},
          {"properties", Json::object()}};
}

// Data of a program's own need not lie anywhere.
bool is_for_some_data(const Field& field, const Fields& fields) {
  return field.name == kDataPath && !own_data(fields).empty();
}

Json section_schema(const Section& section, const Fields& fields) {
  Json schema = object(section.doc);
  auto required = Json::array();
  for (const auto* field : fields.of(section.name)) {
    schema["properties"][std::string(field->key())] = field_schema(*field);
    if (field->rules.required && !is_for_some_data(*field, fields))
      required.push_back(field->key());
  }
  if (!required.empty()) schema["required"] = required;
  return schema;
}

Json quick_schema(const Fields& fields) {
  Json schema = object("Values that fields take with --quick.");
  for (const auto& field : fields.all()) schema["properties"][field.name] = optional_schema(field);
  return schema;
}

// "data.augment" lies in "data", which comes before it.
Json& parent_of(Json& root, std::string_view section, std::string_view& key) {
  const auto dot = section.rfind('.');
  key = dot == std::string_view::npos ? section : section.substr(dot + 1);
  if (dot == std::string_view::npos) return root;
  return root["properties"][std::string(section.substr(0, dot))];
}

// Of a job whose field `name`, if it is there, is as `value` says; `required`: it is there.
Json job_with(std::string_view name, Json value, bool required) {
  const auto dot = name.find('.');
  const std::string key(name.substr(0, dot));
  if (dot != name.npos) value = job_with(name.substr(dot + 1), std::move(value), required);
  Json schema = {{"properties", {{key, std::move(value)}}}};
  if (required) schema["required"] = Json::array({key});
  return schema;
}

// A default that depends on other fields may be one of the values.
Json holds(const OnlyWith& condition, const Fields& fields) {
  const Field& other = *fields.find(condition.field);
  const bool by_default = !other.rules.default_text.empty() || fields.holds(condition, JobSpec{});
  return job_with(condition.field, {{"enum", condition.values}},
                  other.rules.required || !by_default);
}

bool is_same(const OnlyWith& one, const OnlyWith& other) {
  return one.field == other.field && one.values == other.values;
}

// Fields that mean something only while another one has one of some values; a list that has one of
// them is left to the loader.
Json conditions_schema(const Fields& fields) {
  std::vector<std::pair<OnlyWith, Json>> forbidden;
  for (const Field& field : fields.all()) {
    for (const OnlyWith* condition : conditions(field.rules)) {
      if (condition->field.empty()) continue;
      if (fields.find(condition->field)->type == FieldType::kTexts) continue;
      auto place = std::ranges::find_if(
          forbidden, [&](const auto& known) { return is_same(known.first, *condition); });
      if (place == forbidden.end()) place = forbidden.emplace(place, *condition, Json::object());
      place->second.merge_patch(job_with(field.name, false, false));
    }
  }
  Json all = Json::array();
  for (const auto& [condition, fields_of_others] : forbidden)
    all.push_back({{"if", holds(condition, fields)}, {"else", fields_of_others}});
  if (const auto own = own_data(fields); !own.empty())
    all.push_back({{"if", job_with(kDataType, {{"enum", own}}, true)},
                   {"else", job_with(kDataPath, true, true)}});
  return all;
}

}  // namespace

std::string json_schema(const Fields& fields) {
  Json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
               {"title", "muster job"}};
  root.update(section_schema(fields.sections().front(), fields));
  for (const auto& section : fields.sections()) {
    if (section.name.empty()) continue;
    std::string_view key;
    Json& parent = parent_of(root, section.name, key);
    parent["properties"][std::string(key)] = section_schema(section, fields);
  }
  root["properties"]["quick"] = quick_schema(fields);
  root["required"] = {"model", "data"};
  root["allOf"] = conditions_schema(fields);
  return root.dump(2) + "\n";
}

}  // namespace muster::job
