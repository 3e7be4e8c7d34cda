#pragma once
// The table of fields told to people and programs: `muster help job`, docs/job.md, JSON Schema.

#include <string>

#include "muster/job/field.h"
#include "muster/job/fields.h"

namespace muster::job {

std::string default_text(const Field& field);  // as help shows it
std::string help_all(const Fields& fields);
std::string help_section(const Section& section, const Fields& fields);
std::string help_field(const Field& field);
std::string markdown(const Fields& fields);     // docs/job.md
std::string json_schema(const Fields& fields);  // draft 2020-12

}  // namespace muster::job
