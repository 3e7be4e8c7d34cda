#pragma once
// Which field a MUSTER_* variable of the environment means. Pure.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/fields.h"

namespace muster::job {

inline constexpr std::string_view kVariablePrefix = "MUSTER_";

// `__` may stand for the dot.
std::string normalised(std::string_view variable);

// The field that the normalised variable sets; nullptr where there is none.
const Field* field_of_variable(const Fields& fields, std::string_view variable);

// The group whose name it is, or begins with; nullptr where there is none. Other variables of the
// prefix are none of the job's.
const Section* section_of_variable(const Fields& fields, std::string_view variable);

// The variable of a field that it may be a misspelling of; may be empty.
std::string near_variable(const Fields& fields, std::string_view variable);

// Of variables that look like a field's and set none, as they lack its group (MUSTER_EPOCHS) or it
// is misspelt (MUSTER_TRANING_EPOCHS): a line for a person each.
std::vector<std::string> stray_variables(const std::map<std::string, std::string>& environment,
                                         const Fields& fields);

}  // namespace muster::job
