#pragma once
// Reading one YAML node into one C++ type, and printing it back, under the rules of a field.
// The overloads are all there is to a type: a new one needs a read, a print and a kFieldType.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/units.h"
#include "muster/job/enum_names.h"
#include "muster/job/field.h"

namespace muster::job {

template <class T>
inline constexpr FieldType kFieldType = FieldType::kChoice;
template <>
inline constexpr FieldType kFieldType<std::int64_t> = FieldType::kInteger;
template <>
inline constexpr FieldType kFieldType<std::uint64_t> = FieldType::kInteger;
template <>
inline constexpr FieldType kFieldType<double> = FieldType::kNumber;
template <>
inline constexpr FieldType kFieldType<bool> = FieldType::kBoolean;
template <>
inline constexpr FieldType kFieldType<std::string> = FieldType::kText;
template <>
inline constexpr FieldType kFieldType<Duration> = FieldType::kDuration;
template <>
inline constexpr FieldType kFieldType<Bytes> = FieldType::kBytes;
template <>
inline constexpr FieldType kFieldType<Interval> = FieldType::kInterval;
template <>
inline constexpr FieldType kFieldType<std::vector<std::int64_t>> = FieldType::kIntegers;
template <>
inline constexpr FieldType kFieldType<std::vector<double>> = FieldType::kNumbers;
template <>
inline constexpr FieldType kFieldType<std::vector<std::string>> = FieldType::kTexts;
template <>
inline constexpr FieldType kFieldType<std::vector<HostSlots>> = FieldType::kTexts;
template <>
inline constexpr FieldType kFieldType<std::vector<ParameterGroup>> = FieldType::kGroups;
template <>
inline constexpr FieldType kFieldType<std::vector<PlacedBlocks>> = FieldType::kPlacement;
template <class T>
inline constexpr FieldType kFieldType<std::optional<T>> = kFieldType<T>;

// What was found where `expected` was needed, with the help that fits.
Diagnostic mismatch(const YamlNode& node, const std::string& expected, std::string help = {});

Complaints read_value(const YamlNode& node, const FieldRules& rules, std::int64_t& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, std::uint64_t& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, double& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, bool& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, std::string& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, Duration& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, Bytes& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, Interval& value);
Complaints read_value(const YamlNode& node, const FieldRules& rules, ParameterGroup& value);
// A text may have several, with commas between them; this host alone, without a number, is none.
Complaints read_value(const YamlNode& node, const FieldRules& rules, std::vector<HostSlots>& value);
// A mapping, in the order in which it is written.
Complaints read_value(const YamlNode& node, const FieldRules& rules,
                      std::vector<PlacedBlocks>& value);

Printed print_value(std::int64_t value);
Printed print_value(std::uint64_t value);
Printed print_value(double value);
Printed print_value(bool value);
Printed print_value(const std::string& value);
Printed print_value(Duration value);
Printed print_value(Bytes value);
Printed print_value(const Interval& value);
Printed print_value(const ParameterGroup& value);
Printed print_value(const HostSlots& value);
Printed print_value(const std::vector<PlacedBlocks>& value);

// The index of the choice that the node names.
Complaints read_choice(const YamlNode& node, const std::vector<std::string_view>& names,
                       std::size_t& index);

template <NamedEnum E>
std::vector<std::string_view> names_of() {
  std::vector<std::string_view> names;
  for (const auto& entry : EnumNames<E>::kAll) names.push_back(entry.name);
  return names;
}

template <NamedEnum E>
Complaints read_value(const YamlNode& node, const FieldRules&, E& value) {
  std::size_t index = 0;
  if (auto wrong = read_choice(node, names_of<E>(), index); !wrong.empty()) return wrong;
  value = EnumNames<E>::kAll[index].value;
  return {};
}

template <NamedEnum E>
Printed print_value(E value) {
  return {std::string(to_string(value)), true};
}

template <class T>
Complaints read_value(const YamlNode& node, const FieldRules& rules, std::optional<T>& value) {
  if (node.kind == YamlNode::Kind::kScalar && node.text == rules.unset) {
    value.reset();
    return {};
  }
  T read{};
  if (auto wrong = read_value(node, rules, read); !wrong.empty()) return wrong;
  value = std::move(read);
  return {};
}

// A text stands for a list of one.
template <class T>
Complaints read_value(const YamlNode& node, const FieldRules& rules, std::vector<T>& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    if (node.kind == YamlNode::Kind::kScalar) {
      std::string only;
      if (auto wrong = read_value(node, rules, only); !wrong.empty()) return wrong;
      value = {std::move(only)};
      return {};
    }
  }
  if (node.kind != YamlNode::Kind::kList) {
    return {mismatch(node, expectation(kFieldType<std::vector<T>>, rules, {}))};
  }
  std::vector<T> read(node.items.size());
  Complaints all;
  for (std::size_t at = 0; at < read.size(); ++at)
    std::ranges::move(read_value(node.items[at], rules, read[at]), std::back_inserter(all));
  if (all.empty()) value = std::move(read);
  return all;
}

template <class T>
Printed print_value(const std::vector<T>& value) {
  std::string text;
  for (const auto& item : value) text += (text.empty() ? "" : ", ") + to_json(print_value(item));
  return {"[" + text + "]", false};
}

}  // namespace muster::job
