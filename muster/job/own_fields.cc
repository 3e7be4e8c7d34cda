#include "muster/job/own_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "muster/job/bind.h"
#include "muster/job/fields.h"

namespace muster::job {
namespace {

using Names = std::vector<std::string_view>;

Names names_of(const OwnComponents& own, OwnKind kind) {
  Names names;
  for (const OwnComponent& component : own)
    if (component.kind == kind) names.emplace_back(component.name);
  return names;
}

Field& field_in(std::vector<Field>& fields, std::string_view name) {
  return *std::ranges::find(fields, name, &Field::name);
}

// A field of an enumeration takes own names besides: E::kOwn stands for them, `name` holds which.
template <class Kind, class Name>
void extend(Field& field, const Names& own, Kind kind, Name name) {
  using E = std::remove_reference_t<decltype(kind(std::declval<JobSpec&>()))>;
  field.choices.insert(field.choices.end(), own.begin(), own.end());
  field.read = [all = field.choices, kind, name](const YamlNode& node,
                                                 JobSpec& spec) -> Complaints {
    std::size_t index = 0;
    if (auto wrong = read_choice(node, all, index); !wrong.empty()) return wrong;
    const bool is_own = index >= std::size(EnumNames<E>::kAll);
    kind(spec) = is_own ? E::kOwn : EnumNames<E>::kAll[index].value;
    name(spec) = is_own ? std::string(all[index]) : std::string();
    return {};
  };
  field.print = [kind, name](const JobSpec& spec) {
    return kind(spec) == E::kOwn ? Printed{name(spec), true} : print_value(kind(spec));
  };
}

// A text that must be one of a few words, of which own ones are some.
template <class Member>
void choose_among(Field& field, Names words, Member member) {
  field.type = FieldType::kChoice;
  field.choices = std::move(words);
  field.read = [all = field.choices, member](const YamlNode& node, JobSpec& spec) -> Complaints {
    std::size_t index = 0;
    if (auto wrong = read_choice(node, all, index); !wrong.empty()) return wrong;
    member(spec) = std::string(all[index]);
    return {};
  };
}

Complaints check_names(const YamlNode& node, const Names& known) {
  if (known.empty())
    return {mismatch(node, "no names", "only a program of your own has some; see docs/app.md")};
  std::size_t index = 0;
  if (node.kind == YamlNode::Kind::kScalar) return read_choice(node, known, index);
  Complaints all;
  for (const YamlNode& item : node.items)
    std::ranges::move(read_choice(item, known, index), std::back_inserter(all));
  return all;
}

constexpr std::string_view kNoText = "^(?!)";  // a pattern

// A list of own names.
void list_among(Field& field, const Names& own) {
  field.choices = own;
  if (own.empty()) field.rules.pattern = kNoText;
  field.read = [own, plain = field.read](const YamlNode& node, JobSpec& spec) -> Complaints {
    const bool none = node.kind == YamlNode::Kind::kList && node.items.empty();
    if (!none && node.kind != YamlNode::Kind::kMap)
      if (auto wrong = check_names(node, own); !wrong.empty()) return wrong;
    return plain(node, spec);
  };
}

FieldRules rules_of(const OwnComponent& component, const OwnOption& option) {
  return {.doc = option.doc,
          .min = option.min,
          .max = option.max,
          .only_with = {field_of(component.kind), {component.name}}};
}

template <class T>
Field option_field(std::string name, const T& usual, const FieldRules& rules) {
  Field field{name, kFieldType<T>, rules, {}, {}, {}};
  field.read = [name, rules](const YamlNode& node, JobSpec& spec) -> Complaints {
    T value{};
    if (auto wrong = read_value(node, rules, value); !wrong.empty()) return wrong;
    spec.options[name] = std::move(value);
    return {};
  };
  field.print = [name = std::move(name), usual](const JobSpec& spec) {
    const auto found = spec.options.find(name);
    return print_value(found == spec.options.end() ? usual : std::get<T>(found->second));
  };
  return field;
}

}  // namespace

void add_own_choices(std::vector<Field>& fields, const OwnComponents& own) {
  const auto model = [](auto member) { return at(&JobSpec::model, member); };
  const auto data = [](auto member) { return at(&JobSpec::data, member); };
  const auto evaluation = [](auto member) { return at(&JobSpec::evaluation, member); };
  const Names metrics = names_of(own, OwnKind::kMetric);
  Names losses = {kCrossEntropy};
  std::ranges::copy(names_of(own, OwnKind::kLoss), std::back_inserter(losses));
  extend(field_in(fields, "model.type"), names_of(own, OwnKind::kModel), model(&ModelSpec::type),
         model(&ModelSpec::own));
  extend(field_in(fields, "data.type"), names_of(own, OwnKind::kData), data(&DataSpec::type),
         data(&DataSpec::own));
  extend(field_in(fields, "evaluation.metric"), metrics, evaluation(&EvaluationSpec::metric),
         evaluation(&EvaluationSpec::own_metric));
  choose_among(field_in(fields, "training.loss"), std::move(losses),
               at(&JobSpec::training, &TrainingSpec::loss));
  list_among(field_in(fields, "evaluation.metrics"), metrics);
  list_among(field_in(fields, "data.transforms"), names_of(own, OwnKind::kTransform));
}

void add_own_options(std::vector<Field>& fields, std::vector<Section>& sections,
                     const OwnComponents& own, std::deque<std::string>& words) {
  const auto has_options = [](const OwnComponent& component) { return !component.options.empty(); };
  if (std::ranges::none_of(own, has_options)) return;
  sections.push_back({"options", "What this program's own components can be told."});
  for (const OwnComponent& component : own) {
    if (!has_options(component)) continue;
    const std::string& section = words.emplace_back("options." + component.name);
    sections.push_back({section, component.doc});
    for (const OwnOption& option : component.options)
      std::visit(
          [&](const auto& usual) {
            fields.push_back(
                option_field(section + "." + option.name, usual, rules_of(component, option)));
          },
          option.usual);
  }
}

}  // namespace muster::job
