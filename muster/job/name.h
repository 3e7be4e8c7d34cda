#pragma once
// The name of a job, and of a way to train one: also that of a folder, and a word of commands.
// Pure.

#include <string>
#include <string_view>

namespace muster::job {

// What is_name() takes, for the message where it does not.
inline constexpr std::string_view kNameRule =
    "letters, digits, `-`, `_`, `+`, `.`, and begin with a letter, a digit or `_`; at most 200 "
    "bytes";

// The same as a regular expression of JSON Schema, which counts characters.
inline constexpr std::string_view kNamePattern =
    "^([A-Za-z0-9_]|[^\\x00-\\x7F])([-A-Za-z0-9_+.]|[^\\x00-\\x7F]){0,199}$";

// Letters are those of any language. What begins with a point would be hidden, and with a dash a
// command's option.
bool is_name(std::string_view name);

// `text` as a name: what none may have is a dash. Not shortened; empty as it is.
std::string name_from(std::string_view text);

}  // namespace muster::job
