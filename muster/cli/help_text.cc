#include "muster/cli/help_text.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "muster/base/text_width.h"

namespace muster::cli {
namespace {

constexpr int kWidest = 80;
constexpr int kNarrowest = 40;  // a word of help is longer than less

std::string wrapped_fact(const std::string& line, std::size_t width) {
  const auto first = std::min(line.find_first_not_of(' '), line.size());
  const auto gap = line.find("  ", first);
  const auto begin = gap == line.npos ? first : line.find_first_not_of(' ', gap);
  return line.substr(0, begin) + wrapped_behind(line.substr(begin), width, begin);
}

std::string wrapped_field(const std::string& line, std::size_t width) {
  if (!line.starts_with(' ')) return wrapped_behind(line, width, 0);
  const auto name = std::min(line.find_first_not_of(' '), line.size());
  const auto end = std::min(line.find(' ', name), line.size());
  return help_entry(line.substr(name, end - name), line.substr(end), width);
}

std::string each_line(const std::string& text, std::size_t width,
                      std::string (*shown)(const std::string&, std::size_t)) {
  std::istringstream lines(text);
  std::string whole;
  for (std::string line; std::getline(lines, line);) whole += shown(line, width) + "\n";
  return whole;
}

}  // namespace

std::size_t help_width(int columns) noexcept {
  return static_cast<std::size_t>(std::clamp(columns, kNarrowest, kWidest));
}

std::size_t help_column(std::size_t width) noexcept { return std::min<std::size_t>(30, width / 2); }

std::string plain_names(std::string names) {
  constexpr std::string_view kOff = "{false}";
  for (auto at = names.find(kOff); at != names.npos; at = names.find(kOff, at))
    names.erase(at, kOff.size());
  return names;
}

std::string help_entry(const std::string& name, const std::string& description, std::size_t width) {
  std::string text = std::string(kHelpIndent, ' ') + wrapped_behind(name, width, kHelpIndent);
  if (description.empty()) return text;
  const std::size_t column = help_column(width);
  const std::size_t taken = display_width(text);
  const bool below = text.find('\n') != text.npos || taken >= column;
  text += below ? "\n" + std::string(column, ' ') : std::string(column - taken, ' ');
  return text + wrapped_behind(description, width, column);
}

std::string wrapped_fields(const std::string& text, std::size_t width) {
  return each_line(text, width, wrapped_field);
}

std::string wrapped_facts(const std::string& text, std::size_t width) {
  return each_line(text, width, wrapped_fact);
}

}  // namespace muster::cli
