#pragma once
// Text with the letters of ASCII made small.

#include <string>

namespace muster {

inline std::string lowered(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace muster
