#pragma once
// Characters beyond U+FFFF as JSON escapes them, in two surrogates: "\ud83d\ude00" is 😀. The parser
// of YAML takes neither, so they are hidden from it and joined in what it gives back. Pure.

#include <string>
#include <string_view>

#include "muster/base/result.h"

namespace muster::job {

// The backslash of each becomes a byte that is in no UTF-8, such as `text` is: whether it begins an
// escape, as it does in double quotes only, the parser can tell.
void hide_surrogates(std::string& text);

// Of a scalar that is not in double quotes: the backslashes.
std::string shown_surrogates(std::string text);

// Of a scalar in double quotes: the characters. kInvalid: a surrogate stands alone.
Result<std::string> joined_surrogates(std::string_view text);

}  // namespace muster::job
