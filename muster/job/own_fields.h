#pragma once
// The fields and words that a program's own components add to the table; use fields.h.

#include <deque>
#include <string>
#include <vector>

#include "muster/job/field.h"
#include "muster/job/own.h"

namespace muster::job {

struct Section;

// Names of own components become choices of the fields that take them. Views point into `own`,
// which stays where it is.
void add_own_choices(std::vector<Field>& fields, const OwnComponents& own);

// `options.<name>.<option>`, and a section for each component that has options. `words` keeps what
// their views point to.
void add_own_options(std::vector<Field>& fields, std::vector<Section>& sections,
                     const OwnComponents& own, std::deque<std::string>& words);

}  // namespace muster::job
