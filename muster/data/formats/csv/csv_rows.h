#pragma once
// The cells of a CSV text, row by row.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::data {

// Calls `take` with the cells of each row that is not empty, and the line it ends on, counted from
// 1; stops at an error of it. kInvalid, with the line, for a quote where none may be and for one
// that nothing closes. A mark of UTF-8 before the text is none of it. Pure.
Status for_each_row(
    std::string_view text, char delimiter,
    const std::function<Status(const std::vector<std::string>& cells, std::int64_t line)>& take);

}  // namespace muster::data
