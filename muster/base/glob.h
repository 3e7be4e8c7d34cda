#pragma once
// Patterns for names: `*` stands for any characters (none, dots and slashes too), `?` for one,
// `[8-12]` for a whole number from 8 to 12 (as in the lists of hosts of Slurm; of one digit each,
// as in a shell), all else for itself. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace muster {

namespace glob {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

// Where the digits end that begin there.
constexpr std::size_t end_of_digits(std::string_view text, std::size_t begin) noexcept {
  std::size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end;
}

struct Number {
  std::size_t length = 0;  // digits; 0: there is none
  std::uint64_t value = 0;
};

constexpr Number number_at(std::string_view text, std::size_t begin) noexcept {
  constexpr std::size_t kMostDigits = 18;
  Number number{.length = end_of_digits(text, begin) - begin};
  if (number.length > kMostDigits) return {};
  for (const char digit : text.substr(begin, number.length))
    number.value = number.value * 10 + static_cast<std::uint64_t>(digit - '0');
  return number;
}

struct NumberRange {
  std::size_t length = 0;  // of its text; 0: there is none
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

constexpr NumberRange range_at(std::string_view pattern, std::size_t begin) noexcept {
  const auto has = [&](std::size_t at, char c) { return at < pattern.size() && pattern[at] == c; };
  if (!has(begin, '[')) return {};
  const Number first = number_at(pattern, begin + 1);
  const std::size_t dash = begin + 1 + first.length;
  if (first.length == 0 || !has(dash, '-')) return {};
  const Number last = number_at(pattern, dash + 1);
  const std::size_t end = dash + 1 + last.length;
  if (last.length == 0 || !has(end, ']')) return {};
  return {end + 1 - begin, first.value, last.value};
}

struct Taken {
  std::size_t of_pattern = 0;
  std::size_t of_text = 0;  // 0: they differ
};

// What stands first in the pattern, no star, and what of the text it stands for. A number has all
// digits that are there; behind a star it does not begin amid some.
constexpr Taken take(std::string_view pattern, std::size_t p, std::string_view text,
                     std::size_t t) noexcept {
  if (p == pattern.size()) return {};
  if (const NumberRange range = range_at(pattern, p); range.length > 0) {
    const bool amid = p > 0 && pattern[p - 1] == '*' && t > 0 && is_digit(text[t - 1]);
    const Number number = number_at(text, t);
    const bool within = number.value >= range.first && number.value <= range.last;
    return {range.length, within && !amid ? number.length : 0};
  }
  return {1, pattern[p] == '?' || pattern[p] == text[t] ? std::size_t{1} : std::size_t{0}};
}

}  // namespace glob

constexpr bool matches(std::string_view pattern, std::string_view text) noexcept {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one
  std::size_t taken = 0;                      // where the text after its part begins
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (const glob::Taken step = glob::take(pattern, p, text, t); step.of_text > 0) {
      p += step.of_pattern;
      t += step.of_text;
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
