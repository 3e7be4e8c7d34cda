#pragma once
// One field of the job file: its name, rules and documentation, and how its value is read into and
// printed from a JobSpec. The table of all of them is in fields.cc; parsing, checks, --set, the
// environment, help, JSON Schema and docs/job.md follow from it. Immutable once built.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/spec.h"
#include "muster/job/yaml.h"

namespace muster::job {

enum class FieldType : std::uint8_t {
  kInteger,
  kNumber,
  kBoolean,
  kText,
  kChoice,
  kDuration,
  kBytes,
  kInterval,
  kIntegers,
  kNumbers,
  kTexts,
  kGroups,
  kPlacement,
};

// A field that means something only while another one has one of these values.
struct OnlyWith {
  std::string_view field = {};
  std::vector<std::string_view> values = {};
};

// A number between 0 and 1 that may be written as a percentage.
inline constexpr std::string_view kShare = "share";

struct FieldRules {
  std::string_view doc = {};
  std::string_view unit = {};
  // What a text, or each of a list, has to look like; fewest entries of a list; a number within the
  // limits that is none of its values. For the JSON Schema: the loader has rules of its own, and
  // says more.
  std::string_view pattern = {};
  std::size_t least_entries = 0;
  std::optional<double> excluded = {};
  // Limits of numbers, of amounts of intervals, of seconds, of bytes, and of each entry of a list.
  double min = -std::numeric_limits<double>::infinity();
  double above = -std::numeric_limits<double>::infinity();  // as min, itself excluded
  double max = std::numeric_limits<double>::infinity();
  double below = std::numeric_limits<double>::infinity();  // as max, itself excluded
  std::vector<Interval::Unit> units = {};                  // of an interval; empty: all
  std::string_view unset = {};         // the word for an optional that has no value
  std::string_view default_text = {};  // where the default depends on other fields
  OnlyWith only_with = {};
  OnlyWith and_with = {};  // besides only_with
  bool required = false;
};

inline std::array<const OnlyWith*, 2> conditions(const FieldRules& rules) noexcept {
  return {&rules.only_with, &rules.and_with};
}

// A value as text, and whether JSON puts it in quotes.
struct Printed {
  std::string text;
  bool is_text = false;
};

using Complaints = std::vector<Diagnostic>;  // none: the value is read

struct Field {
  std::string name;  // "training.epochs"
  FieldType type;
  FieldRules rules;
  std::vector<std::string_view> choices;  // of kChoice

  // Reads the node into its member; what does not fit, and the spec untouched.
  std::function<Complaints(const YamlNode&, JobSpec&)> read;
  std::function<Printed(const JobSpec&)> print;

  std::string_view section() const noexcept;  // "training"; empty at the top level
  std::string_view key() const noexcept;      // "epochs"
  std::string variable() const;               // "MUSTER_TRAINING_EPOCHS"
};

std::string variable_name(std::string_view field);

// "a whole number, at least 1", as messages, help and docs/job.md say it.
std::string expectation(const Field& field);
std::string expectation(FieldType type, const FieldRules& rules,
                        const std::vector<std::string_view>& choices);

std::string to_yaml(const Printed& value);
std::string to_json(const Printed& value);

}  // namespace muster::job
