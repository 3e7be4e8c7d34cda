#pragma once
// Which fields of a job are paths, on each machine that trains it. Pure.

#include <span>
#include <string>
#include <string_view>

#include "muster/job/spec.h"

namespace muster::job {

struct PathField {
  std::string_view name;
  std::string& (*of)(JobSpec& job);  // empty: none was given
  bool is_scratch = false;           // each machine's own, made where it is missing; or a word
};
std::span<const PathField> path_fields() noexcept;

}  // namespace muster::job
