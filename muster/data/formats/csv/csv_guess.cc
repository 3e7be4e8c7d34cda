#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "muster/data/formats/csv/csv_rows.h"
#include "muster/data/formats/csv/csv_table.h"

namespace muster::data {
namespace {

using Row = std::vector<std::string>;

char delimiter_of(std::string_view text) {
  const auto start = std::min(text.find_first_not_of("\r\n"), text.size());
  const auto line = text.substr(start, text.find_first_of("\r\n", start) - start);
  char delimiter = ',';
  std::ptrdiff_t most = 0;
  for (const char candidate : {',', '\t', ';', '|'}) {
    const auto times = std::ranges::count(line, candidate);
    if (times > most) delimiter = candidate;
    most = std::max(most, times);
  }
  return delimiter;
}

// The first two; fewer where there are no more. What comes behind them does not matter.
std::pair<Row, Row> first_rows(std::string_view text, char delimiter) {
  std::vector<Row> rows;
  (void)for_each_row(text, delimiter, [&rows](const Row& cells, std::int64_t) -> Status {
    rows.push_back(cells);
    if (rows.size() < 2) return ok();
    return fail(ErrorCode::kCancelled, "enough");
  });
  rows.resize(2);
  return {rows[0], rows[1]};
}

bool is_number(const std::string& cell) {
  double value = 0;
  const char* const end = cell.data() + cell.size();
  return !cell.empty() && std::from_chars(cell.data(), end, value).ptr == end;
}

// "3,7": a number to half of Europe.
bool has_decimal_comma(std::string cell) {
  if (std::ranges::count(cell, ',') != 1) return false;
  std::ranges::replace(cell, ',', '.');
  return is_number(cell);
}

bool counts_from_zero(const Row& row) {
  for (std::size_t i = 0; i < row.size(); ++i)
    if (row[i] != std::to_string(i) && i + 1 < row.size()) return false;
  return row.size() > 2;
}

bool is_header(const Row& first, const Row& second) {
  if (counts_from_zero(first)) return true;
  bool above = false;
  for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i)
    above = above || (!first[i].empty() && !is_number(first[i]) && is_number(second[i]));
  if (above) return true;
  const bool words = std::ranges::none_of(first, is_number);
  return words && std::set<std::string>(first.begin(), first.end()).size() == first.size();
}

}  // namespace

CsvLayout guess_layout(std::string_view beginning) {
  CsvLayout layout;
  layout.delimiter = delimiter_of(beginning);
  auto [first, second] = first_rows(beginning, layout.delimiter);
  if (layout.delimiter != ',' && (std::ranges::any_of(first, has_decimal_comma) ||
                                  std::ranges::any_of(second, has_decimal_comma))) {
    layout.decimal = ',';
    for (Row* row : {&first, &second})
      for (std::string& cell : *row)
        if (has_decimal_comma(cell)) std::ranges::replace(cell, ',', '.');
  }
  layout.header = is_header(first, second);
  return layout;
}

}  // namespace muster::data
