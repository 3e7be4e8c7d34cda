#pragma once
// What a program adds to the words of the job file (muster::App): models, losses, metrics, data
// sources and transforms under names of their own, each with options that are fields like any
// other, `options.<name>.<option>`. Plain data.

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "muster/base/result.h"

namespace muster::job {

enum class OwnKind : std::uint8_t { kModel, kLoss, kMetric, kData, kTransform };

// The type of the value says which values an option takes.
using OptionValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                                 std::vector<double>, std::vector<std::string>>;

struct OwnOption {
  std::string name;
  OptionValue usual;  // where the job file says nothing
  std::string doc = {};
  // Limits of numbers, and of each entry of a list.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

struct OwnComponent {
  OwnKind kind = OwnKind::kModel;
  std::string name;
  std::string doc = {};
  std::vector<OwnOption> options = {};
  bool higher_is_better = false;  // of a metric
};
using OwnComponents = std::vector<OwnComponent>;

// The field of the job file that takes the names of a kind: "model.type".
std::string_view field_of(OwnKind kind) noexcept;

// kInvalid, naming the component, where a name is none, is one of muster's own, or comes twice.
Status check(const OwnComponents& own);

// By the field's name, "options.<name>.<option>"; those that nobody gave are not in it.
using OptionValues = std::map<std::string, OptionValue, std::less<>>;

}  // namespace muster::job
