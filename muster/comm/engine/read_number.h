#pragma once
// A number in a text that another rank wrote. Pure.

#include <charconv>
#include <string_view>
#include <system_error>

namespace muster::comm {

// Whether `word` is a number and nothing else.
template <class Number>
bool read_number(std::string_view word, Number& into) {
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, into);
  return error == std::errc() && stop == end;
}

}  // namespace muster::comm
