#pragma once
// Tables as people read them in a terminal. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster::observe {

inline constexpr std::string_view kNothing = "–";  // of a cell that has no value

// Lines of as many cells each, two blanks between columns; the first `left` cells of a line on the
// left of their columns, the others on the right. Empty where there is no line. Where that is wider
// than `width` columns (0: it may be), what does not fit stands in further tables below, each with
// the first `left` columns again.
std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t left = 1,
                    std::size_t width = 0);

}  // namespace muster::observe
