#include "muster/observe/table_text.h"

#include <algorithm>
#include <numeric>

#include "muster/base/text_width.h"

namespace muster::observe {
namespace {

constexpr std::size_t kBetween = 2;

using Columns = std::vector<std::size_t>;  // by their places in a line

std::string line_of(const std::vector<std::string>& cells, const Columns& shown,
                    const std::vector<std::size_t>& widths, std::size_t left) {
  std::string line;
  for (const std::size_t i : shown) {
    const std::string space(widths[i] - display_width(cells[i]), ' ');
    if (i != shown.front()) line += std::string(kBetween, ' ');
    line += i < left ? cells[i] + space : space + cells[i];
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

// Of each table; every one has a column besides those that all have.
std::vector<Columns> dealt_out(const std::vector<std::size_t>& widths, std::size_t left,
                               std::size_t width) {
  Columns first(std::min(left, widths.size()));
  std::iota(first.begin(), first.end(), 0);
  std::size_t taken_by_first = 0;
  for (const std::size_t i : first) taken_by_first += widths[i] + kBetween;
  std::vector<Columns> tables = {first};
  std::size_t taken = taken_by_first;
  for (std::size_t i = first.size(); i < widths.size(); ++i) {
    if (width > 0 && taken + widths[i] > width && tables.back().size() > first.size()) {
      tables.push_back(first);
      taken = taken_by_first;
    }
    tables.back().push_back(i);
    taken += widths[i] + kBetween;
  }
  return tables;
}

}  // namespace

std::string aligned(const std::vector<std::vector<std::string>>& lines, std::size_t left,
                    std::size_t width) {
  if (lines.empty()) return {};
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i)
      widths[i] = std::max(widths[i], display_width(line[i]));
  }
  std::string text;
  for (const Columns& shown : dealt_out(widths, left, width)) {
    if (!text.empty()) text += "\n";
    for (const auto& line : lines) text += line_of(line, shown, widths, left);
  }
  return text;
}

}  // namespace muster::observe
