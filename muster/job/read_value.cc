#include "muster/job/read_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "muster/base/number.h"
#include "muster/base/trimmed.h"

namespace muster::job {
namespace {

constexpr std::string_view kTrueWords[] = {"on", "yes", "y", "true"};
constexpr std::string_view kFalseWords[] = {"off", "no", "n", "false"};
constexpr std::string_view kNullWords[] = {"null", "~"};

std::string lower(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) {
    return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  });
  return word;
}

template <std::size_t n>
bool is_one_of(std::string_view word, const std::string_view (&words)[n]) {
  return std::find(words, words + n, lower(word)) != words + n;
}

// Words that YAML 1.1 and its readers turn into something other than text.
bool is_ambiguous(std::string_view word) {
  return is_one_of(word, kTrueWords) || is_one_of(word, kFalseWords) || is_one_of(word, kNullWords);
}

std::string found(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
    case YamlNode::Kind::kScalar:
      break;
  }
  if (node.text.empty()) return "empty text";
  const auto shown = excerpt(node.text);
  return node.quoted ? fmt::format("the text \"{}\"", shown) : fmt::format("`{}`", shown);
}

// 0x10, 0o17, 0b1: numbers to some readers, text to others.
bool names_its_base(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 2 && text[0] == '0' &&
         std::string_view("xXoObB").find(text[1]) != std::string_view::npos;
}

bool is_all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

// 1e400 and 1e-400.
bool is_beyond_numbers(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc::result_out_of_range && end == text.data() + text.size();
}

constexpr std::string_view kLeadingZeroHelp =
    "a leading zero means octal to some readers; write the number without it";

std::string number_help(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar || node.text.empty()) return {};
  if (node.quoted) return "remove the quotes";
  if (has_leading_zero(node.text)) return std::string(kLeadingZeroHelp);
  if (names_its_base(node.text)) return "write the number in decimal";
  if (is_beyond_numbers(node.text)) return "numbers end at 1.8e308, and next to zero at 5e-324";
  return {};
}

// `--set training.epochs=` and `MUSTER_SEED=`: there were no quotes that one could remove.
std::string missing_help(const YamlNode& node) {
  const bool is_one_line = node.place.source->label.empty();
  const bool is_empty = node.kind == YamlNode::Kind::kScalar && node.text.empty();
  return is_one_line && is_empty ? "write the value after the `=`" : "";
}

template <class T>
bool parse_number(const YamlNode& node, std::string_view text, T& value) {
  if (node.kind != YamlNode::Kind::kScalar || node.quoted || has_leading_zero(text)) return false;
  const auto number = number_from<T>(text);
  if (number) value = *number;
  return number.has_value();
}

bool within(double value, const FieldRules& rules) {
  return value >= rules.min && value > rules.above && value <= rules.max && value < rules.below;
}

Complaints expected(const YamlNode& node, FieldType type, const FieldRules& rules,
                    std::string help = {}) {
  return {mismatch(node, expectation(type, rules, {}), std::move(help))};
}

template <class T>
Complaints read_integer(const YamlNode& node, const FieldRules& rules, T& value) {
  T read{};
  if (parse_number(node, node.text, read) && within(static_cast<double>(read), rules)) {
    value = read;
    return {};
  }
  std::string help = number_help(node);
  const bool has_an_end = !std::isfinite(rules.max) && !std::isfinite(rules.below);
  if (help.empty() && has_an_end && is_all_digits(node.text))
    help = fmt::format("whole numbers end at {} here", std::numeric_limits<T>::max());
  return expected(node, FieldType::kInteger, rules, std::move(help));
}

bool is_scalar(const YamlNode& node) { return node.kind == YamlNode::Kind::kScalar; }

bool ends_in_digit(std::string_view text) {
  return !text.empty() && text.back() >= '0' && text.back() <= '9';
}

std::vector<std::string_view> interval_units(const FieldRules& rules) {
  std::vector<std::string_view> units;
  const auto add = [&](Interval::Unit unit, const std::vector<std::string_view>& names) {
    if (std::ranges::find(rules.units, unit) != rules.units.end())
      units.insert(units.end(), names.begin(), names.end());
  };
  add(Interval::Unit::kSteps, {"steps"});
  add(Interval::Unit::kEpochs, {"epochs"});
  add(Interval::Unit::kTime, usual_names(duration_units()));
  return units;
}

// `units`: that it may have, the one to take as an example first.
std::string unit_help(const YamlNode& node, const std::vector<std::string_view>& units) {
  if (!is_scalar(node)) return {};
  if (has_leading_zero(node.text)) return std::string(kLeadingZeroHelp);
  const auto quantity = split_quantity(node.text);
  if (!quantity) return {};
  if (quantity->unit.empty()) return fmt::format("add the unit: `{} {}`", node.text, units.front());
  const std::string near = near_word(quantity->unit, units);
  if (near.empty() || near == quantity->unit || ends_in_digit(node.text)) return {};
  const std::string_view number(node.text.data(), quantity->unit.data());
  return fmt::format("did you mean `{} {}`?", trimmed(number, " "), near);
}

}  // namespace

Diagnostic mismatch(const YamlNode& node, const std::string& expected, std::string help) {
  if (help.empty()) help = missing_help(node);
  return {node.place, fmt::format("expected {}, found {}", expected, found(node)), std::move(help)};
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, std::int64_t& value) {
  return read_integer(node, rules, value);
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, std::uint64_t& value) {
  return read_integer(node, rules, value);
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, double& value) {
  std::string_view text = node.text;
  const bool percent = rules.unit == kShare && text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double read = 0;
  YamlNode plain = node;
  plain.quoted = node.quoted && !percent;  // JSON can write 5% in quotes only
  if (parse_number(plain, text, read) && std::isfinite(read)) {
    if (percent) read /= 100;
    if (within(read, rules)) {
      value = read;
      return {};
    }
  }
  return expected(node, FieldType::kNumber, rules, number_help(plain));
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, bool& value) {
  if (is_scalar(node) && !node.quoted && (node.text == "true" || node.text == "false")) {
    value = node.text == "true";
    return {};
  }
  std::string help;
  if (is_scalar(node) && is_one_of(node.text, kTrueWords)) help = "write `true`";
  if (is_scalar(node) && is_one_of(node.text, kFalseWords)) help = "write `false`";
  return expected(node, FieldType::kBoolean, rules, std::move(help));
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, std::string& value) {
  if (!is_scalar(node)) return expected(node, FieldType::kText, rules);
  if (!node.quoted && is_ambiguous(node.text)) {
    return expected(
        node, FieldType::kText, rules,
        fmt::format("some readers do not take `{0}` for text; write \"{0}\"", node.text));
  }
  value = node.text;
  return {};
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, Duration& value) {
  if (is_scalar(node) && !ends_in_digit(node.text)) {
    const auto read = parse_duration(node.text);
    if (read && within(std::chrono::duration<double>(*read).count(), rules)) {
      value = *read;
      return {};
    }
  }
  return expected(node, FieldType::kDuration, rules,
                  unit_help(node, usual_names(duration_units())));
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, Bytes& value) {
  if (is_scalar(node) && !ends_in_digit(node.text)) {
    const auto read = parse_bytes(node.text);
    if (read && within(static_cast<double>(*read), rules)) {
      value = Bytes{*read};
      return {};
    }
  }
  return expected(node, FieldType::kBytes, rules, unit_help(node, usual_names(size_units())));
}

Complaints read_value(const YamlNode& node, const FieldRules& rules, Interval& value) {
  const auto allowed = [&](const Interval& interval) {
    return std::find(rules.units.begin(), rules.units.end(), interval.unit()) !=
               rules.units.end() &&
           (interval.unit() == Interval::Unit::kTime
                ? interval.time() > Duration(0)
                : interval.unit() == Interval::Unit::kEnd ||
                      interval.unit() == Interval::Unit::kNever ||
                      within(interval.amount(), rules)) &&
           (interval.unit() != Interval::Unit::kFraction || interval.amount() <= 1);
  };
  if (is_scalar(node)) {
    const auto read = parse_interval(node.text);
    if (read && allowed(*read)) {
      value = *read;
      return {};
    }
  }
  return expected(node, FieldType::kInterval, rules, unit_help(node, interval_units(rules)));
}

Complaints read_choice(const YamlNode& node, const std::vector<std::string_view>& names,
                       std::size_t& index) {
  if (is_scalar(node)) {
    const auto at = std::find(names.begin(), names.end(), node.text);
    if (at != names.end()) {
      index = static_cast<std::size_t>(at - names.begin());
      return {};
    }
  }
  const auto near = is_scalar(node) ? near_word(lower(node.text), names) : std::string();
  return {mismatch(node, fmt::format("one of {}", fmt::join(names, ", ")),
                   near.empty() ? near : fmt::format("did you mean `{}`?", near))};
}

namespace {

constexpr std::string_view kMatch = "match";
constexpr std::string_view kRateFactor = "learning_rate_factor";
constexpr std::string_view kWeightDecay = "weight_decay";

Diagnostic unknown_key_of_group(const YamlNode& key, const std::string& near) {
  return {key.place, fmt::format("unknown key `{}` of a group", excerpt(key.text)),
          near.empty() ? fmt::format("known are {}, {}, {}", kMatch, kRateFactor, kWeightDecay)
                       : fmt::format("did you mean `{}`?", near)};
}

}  // namespace

Complaints read_value(const YamlNode& node, const FieldRules&, ParameterGroup& value) {
  if (node.kind != YamlNode::Kind::kMap)
    return {mismatch(node, "a mapping such as {match: \"*.bias\", weight_decay: 0}")};
  ParameterGroup read;
  Complaints all;
  bool lacks_match = true;
  for (const auto& [key, item] : node.entries) {
    Complaints wrong;
    if (key.text == kMatch) {
      wrong = read_value(item, {}, read.match);
      lacks_match = wrong.empty() && read.match.empty();
    } else if (key.text == kRateFactor) {
      wrong = read_value(item, {.above = 0}, read.learning_rate_factor);
    } else if (key.text == kWeightDecay) {
      wrong = read_value(item, {.min = 0}, read.weight_decay);
    } else {
      const std::string near = near_word(key.text, {kMatch, kRateFactor, kWeightDecay});
      wrong = {unknown_key_of_group(key, near)};
      lacks_match = lacks_match && near != kMatch;
    }
    std::ranges::move(wrong, std::back_inserter(all));
  }
  if (lacks_match)
    all.push_back({node.place, "a group without `match`",
                   "patterns for names of parameters, such as match: \"*.bias\""});
  if (all.empty()) value = std::move(read);
  return all;
}

namespace {

constexpr std::string_view kHostsExample = "for example [localhost:2, node7:4]";

Complaints read_host(const YamlNode& node, std::string& word) {
  if (node.kind == YamlNode::Kind::kMap)
    return {mismatch(node, "a host such as node7:4", "write it without the space behind the `:`")};
  if (Complaints wrong = read_value(node, {}, word); !wrong.empty()) return wrong;
  const auto hosts = parse_hosts(word);
  if (hosts) return {};
  return {{node.place, hosts.error().message, std::string(kHostsExample)}};
}

}  // namespace

Complaints read_value(const YamlNode& node, const FieldRules& rules,
                      std::vector<HostSlots>& value) {
  const bool is_word = is_scalar(node) && !node.text.empty();
  if (!is_word && node.kind != YamlNode::Kind::kList)
    return {mismatch(node, expectation(FieldType::kTexts, rules, {}))};
  std::string list;
  Complaints all;
  for (const YamlNode& item : is_word ? std::span(&node, 1) : std::span(node.items)) {
    std::string word;
    std::ranges::move(read_host(item, word), std::back_inserter(all));
    list += (list.empty() ? "" : ",") + word;
  }
  if (!all.empty()) return all;
  const bool is_empty = list.empty() || is_this_host_alone(list);
  value = is_empty ? std::vector<HostSlots>() : *parse_hosts(list);
  return {};
}

Complaints read_value(const YamlNode& node, const FieldRules& rules,
                      std::vector<PlacedBlocks>& value) {
  if (node.kind != YamlNode::Kind::kMap) return expected(node, FieldType::kPlacement, rules);
  std::vector<PlacedBlocks> read;
  Complaints all;
  for (const auto& [key, item] : node.entries) {
    read.push_back({.match = key.text, .stage = 0});
    std::ranges::move(read_value(item, rules, read.back().stage), std::back_inserter(all));
  }
  if (all.empty()) value = std::move(read);
  return all;
}

Printed print_value(std::int64_t value) { return {fmt::format("{}", value), false}; }
Printed print_value(std::uint64_t value) { return {fmt::format("{}", value), false}; }
Printed print_value(double value) { return {fmt::format("{}", value), false}; }
Printed print_value(bool value) { return {value ? "true" : "false", false}; }
Printed print_value(const std::string& value) { return {value, true}; }
Printed print_value(Duration value) { return {to_string(value), true}; }
Printed print_value(Bytes value) { return {to_string(value), true}; }
Printed print_value(const Interval& value) { return {to_string(value), true}; }

Printed print_value(const HostSlots& value) { return {to_string(value), true}; }

Printed print_value(const std::vector<PlacedBlocks>& value) {
  std::string text;
  for (const PlacedBlocks& placed : value)
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", to_json(Printed{placed.match, true}),
                        placed.stage);
  return {"{" + text + "}", false};
}

Printed print_value(const ParameterGroup& value) {
  std::string text = fmt::format("{{\"match\": {}, \"learning_rate_factor\": {}",
                                 print_value(value.match).text, value.learning_rate_factor);
  if (value.weight_decay) text += fmt::format(", \"weight_decay\": {}", *value.weight_decay);
  return {text + "}", false};
}

}  // namespace muster::job
