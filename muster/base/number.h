#pragma once
// Numbers in text that holds nothing else.

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace muster {

// What all of `text` says in decimal digits, for a floating-point type with an exponent perhaps, or
// "inf" and "nan". Nothing: it is empty, has a plus, a blank or anything else besides, or is no
// number of that type.
template <class Number>
std::optional<Number> number_from(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  return number;
}

}  // namespace muster
