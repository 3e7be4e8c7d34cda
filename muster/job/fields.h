#pragma once
// The table of fields of the job file: muster's, and what a program adds to it. Immutable once
// built, so thread-safe.

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/field.h"
#include "muster/job/own.h"

namespace muster::job {

struct Section {
  std::string_view name;  // "data.augment"; empty: the top level
  std::string_view doc;
};

class Fields {
 public:
  explicit Fields(OwnComponents own = {});  // which have passed check()
  Fields(const Fields&) = delete;           // views point into it
  Fields& operator=(const Fields&) = delete;

  // In the order in which help, docs/job.md and resolved jobs show them.
  const std::vector<Section>& sections() const noexcept { return sections_; }
  const std::vector<Field>& all() const noexcept { return fields_; }
  const OwnComponents& own() const noexcept { return own_; }

  const Field* find(std::string_view name) const;  // nullptr where there is none
  const Section* find_section(std::string_view name) const;
  std::vector<const Field*> of(std::string_view section) const;
  const Field& first_of(std::string_view section) const;  // or of the sections in it
  // Whether the job is one of those that the condition speaks of.
  bool holds(const OnlyWith& condition, const JobSpec& spec) const;

  // What a user may have meant by the unknown `key` in `section`, as a help line: the nearest key
  // of the section, the section that has this key, or muster's name for another tool's word. May
  // be empty.
  std::string suggestion(std::string_view section, std::string_view key) const;

  // The key of `section` that the unknown `key` is a misspelling or the beginning of; may be empty.
  std::string near_key(std::string_view section, std::string_view key) const;

 private:
  std::vector<std::string_view> keys_of(std::string_view section) const;
  std::string elsewhere(std::string_view section, std::string_view key) const;

  const OwnComponents own_;
  std::deque<std::string> words_;  // which views point into
  std::vector<Section> sections_;
  std::vector<Field> fields_;
};

using FieldsPtr = std::shared_ptr<const Fields>;

// Without anything of a program's own.
const FieldsPtr& muster_fields();

}  // namespace muster::job
