#pragma once
// Where the fields are declared; use fields.h.

#include <vector>

#include "muster/job/field.h"

namespace muster::job {

std::vector<Field> field_table();
std::vector<Field> training_fields();      // training, optimizer, schedule
std::vector<Field> surroundings_fields();  // evaluation … generate

}  // namespace muster::job
