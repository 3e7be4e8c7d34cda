#pragma once
// Where the fields are declared; use fields.h.

#include <vector>

#include "muster/job/field.h"
#include "muster/job/fields.h"

namespace muster::job {

const std::vector<Section>& muster_sections();
std::vector<Field> field_table();
std::vector<Field> model_fields();         // model, lora
std::vector<Field> data_fields();          // data, data.augment
std::vector<Field> training_fields();      // training … schedule
std::vector<Field> surroundings_fields();  // evaluation … generate

OnlyWith language_models();  // model.type: those that read and write text

}  // namespace muster::job
