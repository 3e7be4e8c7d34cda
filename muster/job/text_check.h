#pragma once
// What is checked on the bytes of a job file before it is parsed.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/job/diagnostic.h"

namespace muster::job {

// Bytes of a text that belong in none, and were replaced by blanks: what remains of a word there
// may be anything.
struct Blanked {
  int line = 0;    // from 1
  int column = 0;  // from 1, in bytes
};

struct CheckedText {
  std::vector<Diagnostic> errors;
  bool readable = true;  // false: too much is wrong for what else there is to be worth telling
  std::string text;      // as long as the source's, for a parser; what is wrong became blanks
  std::vector<Blanked> blanked;

  // From the byte before to the byte behind the place, both included.
  bool touches(const Place& place) const noexcept;
  bool is_blanked_behind(const Place& place) const noexcept;  // on its line
};

// A character that no job file may hold but as an escape: one that controls a terminal, or turns
// the direction of text, so that it looks other than it is.
bool is_control(std::uint32_t code) noexcept;

// Size, UTF-8, control characters, tabs as indentation, directives.
CheckedText check_text(const std::shared_ptr<const Source>& source);

}  // namespace muster::job
