#pragma once
// How much room text takes on a terminal, and lines that fit into one. Any thread.

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Columns that UTF-8 takes, as wcwidth(3) knows them of Unicode: of most characters one, of
// Chinese, Japanese, Korean and emoji two, of marks that combine with what stands before them none.
// One of each control character and each byte that is no UTF-8; one of every character where the
// system lacks the locale C.UTF-8, which libc-bin brings.
std::size_t display_width(std::string_view text);

// The longest beginning of whole characters that takes no more columns.
std::string_view cut_to_width(std::string_view text, std::size_t columns);

// Each line of `text` in lines of at most `width` columns, broken at blanks; a longer word stands
// in a line of its own, whole.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

// As one text: lines of at most `width` columns, each but the first behind `indent` blanks; before
// the first, as many columns are taken already. No newline at the end.
std::string wrapped_behind(std::string_view text, std::size_t width, std::size_t indent);

// `text` for a terminal of `width` columns; 0: none, and nothing is broken. Its lines stay, each in
// as many as it needs, broken at blanks, but never inside `back ticks`, which hold what people
// copy; the lines behind the first are two columns further in.
std::string fitted(std::string_view text, std::size_t width);

}  // namespace muster
