#pragma once
// Text without the blanks around it.

#include <string_view>

namespace muster {

// A part of `text`, which must outlive it.
constexpr std::string_view trimmed(std::string_view text, std::string_view blanks) noexcept {
  const auto first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace muster
