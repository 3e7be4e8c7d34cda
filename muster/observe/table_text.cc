#include "muster/observe/table_text.h"

#include <algorithm>

namespace muster::observe {
namespace {

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    std::size_t left) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string space(widths[i] - width_of(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += i < left ? cells[i] + space : space + cells[i];
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t left) {
  if (lines.empty()) return {};
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string text;
  for (const auto& line : lines) text += line_of(line, widths, left);
  return text;
}

}  // namespace muster::observe
