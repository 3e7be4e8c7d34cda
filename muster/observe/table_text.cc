#include "muster/observe/table_text.h"

#include <algorithm>

#include "muster/base/text_width.h"

namespace muster::observe {
namespace {

std::string line_of(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                    std::size_t left) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string space(widths[i] - display_width(cells[i]), ' ');
    if (i > 0) line += "  ";
    line += i < left ? cells[i] + space : space + cells[i];
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t left) {
  if (lines.empty()) return {};
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string text;
  for (const auto& line : lines) text += line_of(line, widths, left);
  return text;
}

}  // namespace muster::observe
