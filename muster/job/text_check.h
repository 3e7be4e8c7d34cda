#pragma once
// What is checked on the bytes of a job file before it is parsed.

#include <memory>
#include <string_view>
#include <vector>

#include "muster/job/diagnostic.h"

namespace muster::job {

// Size, UTF-8, control characters, tabs as indentation, directives.
std::vector<Diagnostic> check_text(const std::shared_ptr<const Source>& source);

// The length of the valid UTF-8 character at the front of `text`; 0 where there is none.
std::size_t utf8_length(std::string_view text) noexcept;

}  // namespace muster::job
