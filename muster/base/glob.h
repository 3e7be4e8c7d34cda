#pragma once
// Patterns for names: `*` stands for any characters (none, dots and slashes too), `?` for one, all
// else for itself. Pure.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace muster {

constexpr bool matches(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one
  std::size_t taken = 0;                      // where the text after its part begins
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

constexpr bool matches_any(std::span<const std::string> patterns, std::string_view text) noexcept {
  for (const std::string& pattern : patterns)
    if (matches(pattern, text)) return true;
  return false;
}

}  // namespace muster
