#pragma once
// Binds a field to the member of JobSpec that holds it, through pointers to members: the type of
// the member decides how the value is read, checked and printed.

#include <string>
#include <utility>

#include "muster/job/field.h"
#include "muster/job/read_value.h"

namespace muster::job {

// at(&JobSpec::model, &ModelSpec::gpt, &GptSpec::n_layer): a function from a spec to that member.
template <class... Members>
constexpr auto at(Members... members) {
  return [members...](auto& spec) -> auto& { return (spec.*....*members); };
}

template <class T>
std::vector<std::string_view> choices_of() {
  if constexpr (NamedEnum<T>) return names_of<T>();
  return {};
}

template <class T>
Printed print_member(const T& value, const FieldRules&) {
  return print_value(value);
}
template <class T>
Printed print_member(const std::optional<T>& value, const FieldRules& rules) {
  return value ? print_value(*value) : Printed{std::string(rules.unset), true};
}

template <class Member>
Field bind(std::string name, Member member, const FieldRules& rules) {
  using T = std::remove_reference_t<decltype(member(std::declval<JobSpec&>()))>;
  Field field{std::move(name), kFieldType<T>, rules, choices_of<T>(), {}, {}};
  field.read = [member, rules](const YamlNode& node, JobSpec& spec) {
    return read_value(node, rules, member(spec));
  };
  field.print = [member, rules](const JobSpec& spec) { return print_member(member(spec), rules); };
  return field;
}

}  // namespace muster::job
