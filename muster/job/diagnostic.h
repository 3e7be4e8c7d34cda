#pragma once
// An error in a user's text with its place, and how it is shown: place, line, caret, help.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::job {

// A text that can be wrong: the job file, or one `--set`, flag or variable (a text of one line,
// without line numbers).
struct Source {
  std::string label;  // "jobs/a.yaml", or empty where the line speaks for itself
  std::string text;
  int order = 0;  // in which the errors of several sources are told
};

struct Place {
  std::shared_ptr<const Source> source;
  int line = 0;    // from 1; 0: the text as a whole
  int column = 0;  // from 1, in bytes
  int length = 1;  // bytes that are underlined
};

struct Diagnostic {
  Place place;
  std::string message;
  std::string help;  // what to do; may be empty
};

// File order: by source, line, column.
void sort_by_place(std::vector<Diagnostic>& diagnostics);

// "jobs/a.yaml:7:3: unknown key `epoch`", the line, a caret, the help.
std::string render(const Diagnostic& diagnostic);

// All of them (the first 50) and a last line that counts them.
std::string render(const std::vector<Diagnostic>& diagnostics);

// [{"file", "line", "column", "message", "help"}]; instead of the place of what was wrong with a
// flag or a variable {"flag", "value", …} or {"variable", "value", …}.
std::string to_json(const std::vector<Diagnostic>& diagnostics);

// Text of a user's inside a message: cut where it is long.
std::string excerpt(std::string_view text);

// base's nearest(), for words of a length that a person writes.
std::string near_word(std::string_view word, const std::vector<std::string_view>& known);

// The column in characters, from 1, as an editor shows it.
int display_column(const Place& place);

}  // namespace muster::job
