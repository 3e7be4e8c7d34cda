#pragma once
// The one table of fields of the job file. Immutable, built once, thread-safe.

#include <span>
#include <string_view>
#include <vector>

#include "muster/job/field.h"

namespace muster::job {

struct Section {
  std::string_view name;  // "data.augment"; empty: the top level
  std::string_view doc;
};

// In the order in which help, docs/job.md and resolved jobs show them.
const std::vector<Section>& sections();
const std::vector<Field>& fields();

const Field* find_field(std::string_view name);  // nullptr where there is none
const Section* find_section(std::string_view name);
std::vector<const Field*> fields_of(std::string_view section);

// What a user may have meant by the unknown `key` in `section`, as a help line: the nearest key of
// the section, the section that has this key, or muster's name for another tool's word. May be
// empty.
std::string suggestion(std::string_view section, std::string_view key);

// The key of `section` that the unknown `key` is a misspelling or the beginning of; may be empty.
std::string near_key(std::string_view section, std::string_view key);

}  // namespace muster::job
