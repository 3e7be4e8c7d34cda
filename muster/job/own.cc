#include "muster/job/own.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "muster/job/fields.h"

namespace muster::job {
namespace {

constexpr OwnKind kKinds[] = {OwnKind::kModel, OwnKind::kLoss, OwnKind::kMetric, OwnKind::kData,
                              OwnKind::kTransform};

bool is_name(std::string_view word) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto allowed = [&](char c) { return is_letter(c) || c == '_' || (c >= '0' && c <= '9'); };
  return !word.empty() && is_letter(word.front()) && std::ranges::all_of(word, allowed);
}

Error not_addable(const OwnComponent& component, std::string_view why) {
  return fail(ErrorCode::kInvalid, fmt::format("[app] `{}` cannot be added to {}: {}",
                                               component.name, field_of(component.kind), why));
}

// A name is one of muster's wherever it stands: `loss: accuracy` would only confuse.
Status check_name(const OwnComponent& component) {
  if (!is_name(component.name))
    return not_addable(component,
                       "a name is small letters, digits and `_`, and begins with a "
                       "letter");
  for (const OwnKind kind : kKinds) {
    const Field& field = *muster_fields()->find(field_of(kind));
    if (std::ranges::find(field.choices, component.name) == field.choices.end()) continue;
    return not_addable(
        component, fmt::format("it is muster's own word for {}; take another name", field.name));
  }
  const auto metrics = muster_fields()->find("evaluation.metric")->choices;
  if (std::ranges::find(metrics, component.name) == metrics.end()) return ok();
  return not_addable(component, "it is muster's own word for evaluation.metric; take another name");
}

struct Limited {
  const OwnOption& option;
  bool operator()(double value) const { return value >= option.min && value <= option.max; }
  bool operator()(std::int64_t value) const { return (*this)(static_cast<double>(value)); }
  template <class T>
  bool operator()(const std::vector<T>& values) const {
    if constexpr (std::is_arithmetic_v<T>) return std::ranges::all_of(values, *this);
    return true;
  }
  bool operator()(bool) const { return true; }
  bool operator()(const std::string&) const { return true; }
};

Status check_options(const OwnComponent& component) {
  std::set<std::string_view> names;
  for (const OwnOption& option : component.options) {
    if (!is_name(option.name))
      return not_addable(component, fmt::format("its option `{}` is no name: small letters, digits "
                                                "and `_`, a letter first",
                                                option.name));
    if (!names.insert(option.name).second)
      return not_addable(component, fmt::format("it has two options `{}`", option.name));
    if (!std::visit(Limited{option}, option.usual))
      return not_addable(component, fmt::format("what its option `{}` is by default lies outside "
                                                "its limits",
                                                option.name));
  }
  return ok();
}

}  // namespace

std::string_view field_of(OwnKind kind) noexcept {
  switch (kind) {
    case OwnKind::kModel:
      return "model.type";
    case OwnKind::kLoss:
      return "training.loss";
    case OwnKind::kMetric:
      return "evaluation.metrics";
    case OwnKind::kData:
      return "data.type";
    case OwnKind::kTransform:
      return "data.transforms";
  }
  return {};
}

Status check(const OwnComponents& own) {
  std::set<std::string_view> names;
  for (const OwnComponent& component : own) {
    MUSTER_TRY(check_name(component));
    if (!names.insert(component.name).second)
      return not_addable(component, "it has been added before, and a name stands for one thing");
    MUSTER_TRY(check_options(component));
  }
  return ok();
}

}  // namespace muster::job
