#pragma once
// Help in lines that fit a terminal. Pure.

#include <cstddef>
#include <string>

namespace muster::cli {

inline constexpr std::size_t kHelpIndent = 2;  // of names

// Columns of help in a terminal of so many: no more than people read well.
std::size_t help_width(int columns) noexcept;

// Where descriptions begin.
std::size_t help_column(std::size_t width) noexcept;

// Names of an option, without what CLI11 adds to those that turn a flag off: "--no-wait{false}".
std::string plain_names(std::string names);

// A name, and beside it what it is, or below where the name is long. No newline at the end.
std::string help_entry(const std::string& name, const std::string& description, std::size_t width);

// What job::help_all() and help_section() tell: a line that is indented is a field's.
std::string wrapped_fields(const std::string& text, std::size_t width);

// What job::help_field() tells: words, then, behind two blanks or more, what there is to them.
std::string wrapped_facts(const std::string& text, std::size_t width);

}  // namespace muster::cli
