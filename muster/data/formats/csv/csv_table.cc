#include "muster/data/formats/csv/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "muster/base/units.h"
#include "muster/data/formats/csv/csv_rows.h"
#include "muster/data/gzip.h"

namespace muster::data {
namespace {

bool is_missing(std::string_view cell) {
  constexpr std::array<std::string_view, 10> kWords = {"",     "NA",   "N/A",  "NaN",  "nan",
                                                       "null", "NULL", "None", "none", "?"};
  return std::ranges::find(kWords, cell) != kWords.end();
}

std::optional<double> number_in(std::string_view cell) {
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const char* const end = cell.data() + cell.size();
  const auto [rest, error] = std::from_chars(cell.data(), end, value);
  if (error != std::errc() || rest != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

// A column as it grows. What it turns out not to be is let go at once.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(std::string name) { column_.name = std::move(name); }

  void add(const std::string& cell, std::int64_t line) {
    const bool missing = is_missing(cell);
    if (missing) ++column_.missing;
    add_number(missing, cell, line);
    add_word(missing, cell);
  }

  // The words in their order, and the codes as places in it.
  CsvColumn finish() && {
    std::vector<std::int32_t> order(column_.words.size());
    std::iota(order.begin(), order.end(), 0);
    const auto& words = column_.words;
    std::ranges::sort(order, [&](std::int32_t a, std::int32_t b) {
      const std::string& left = words[static_cast<std::size_t>(a)];
      const std::string& right = words[static_cast<std::size_t>(b)];
      if (!column_.is_numeric) return left < right;
      const double first = *number_in(left), second = *number_in(right);
      return first != second ? first < second : left < right;
    });
    std::vector<std::int32_t> place(order.size());
    std::vector<std::string> sorted;
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
      sorted.push_back(words[static_cast<std::size_t>(order[i])]);
    }
    for (std::int32_t& code : column_.codes)
      if (code >= 0) code = place[static_cast<std::size_t>(code)];
    column_.words = std::move(sorted);
    return std::move(column_);
  }

 private:
  void add_number(bool missing, const std::string& cell, std::int64_t line) {
    if (!column_.is_numeric) return;
    const auto number = missing ? std::numeric_limits<double>::quiet_NaN() : number_in(cell);
    if (number) return column_.numbers.push_back(*number);
    column_.is_numeric = false;
    column_.other = fmt::format("`{}` on line {}", cell.substr(0, 40), line);
    column_.numbers = {};
  }

  void add_word(bool missing, const std::string& cell) {
    if (!column_.has_words) return;
    if (missing) return column_.codes.push_back(-1);
    const auto next = static_cast<std::int32_t>(column_.words.size());
    const auto [place, is_new] = places_.try_emplace(cell, next);
    if (is_new && next == kMostWords) {
      column_.has_words = false;
      column_.words = {};
      column_.codes = {};
      places_ = {};
      return;
    }
    if (is_new) column_.words.push_back(cell);
    column_.codes.push_back(place->second);
  }

  CsvColumn column_;
  std::unordered_map<std::string, std::int32_t> places_;
};

Status check_names(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto before = names.begin() + static_cast<std::ptrdiff_t>(i);
    const bool twice = std::find(names.begin(), before, names[i]) != before;
    if (!names[i].empty() && !twice) continue;
    return fail(ErrorCode::kInvalid,
                fmt::format("column {} {} by the first row; where that is no header, set "
                            "data.header: false",
                            i + 1,
                            twice ? fmt::format("is called `{}` like another one", names[i])
                                  : "is given no name"));
  }
  return ok();
}

class TableBuilder {
 public:
  explicit TableBuilder(const CsvLayout& layout) : header_is_next_(layout.header) {}

  Status add(const std::vector<std::string>& cells, std::int64_t line) {
    if (columns_.empty()) MUSTER_TRY(begin(cells));
    if (std::exchange(header_is_next_, false)) return ok();
    if (cells.size() != columns_.size())
      return fail(ErrorCode::kInvalid,
                  fmt::format("line {} has {}, and the first has {}: does data.delimiter fit, and "
                              "are cells that contain it quoted?",
                              line, counted(std::ssize(cells), "cell"), columns_.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) columns_[i].add(cells[i], line);
    lines_.push_back(line);
    return ok();
  }

  Result<CsvTable> finish(const Path& path) && {
    if (lines_.empty()) return fail(ErrorCode::kInvalid, "there are no rows");
    CsvTable table{path, {}, std::move(lines_)};
    for (ColumnBuilder& column : columns_) table.columns.push_back(std::move(column).finish());
    return table;
  }

 private:
  Status begin(const std::vector<std::string>& cells) {
    std::vector<std::string> names = cells;
    if (!header_is_next_)
      for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::to_string(i + 1);
    MUSTER_TRY(check_names(names));
    for (std::string& name : names) columns_.emplace_back(std::move(name));
    return ok();
  }

  bool header_is_next_;
  std::vector<ColumnBuilder> columns_;
  std::vector<std::int64_t> lines_;
};

// A mark that some programs put before text in UTF-8.
std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

Result<CsvTable> parse(std::string_view text, const Path& path, const CsvLayout& layout) {
  TableBuilder table(layout);
  MUSTER_TRY(for_each_row(without_mark(text), layout.delimiter,
                          [&table](const std::vector<std::string>& cells, std::int64_t line) {
                            return table.add(cells, line);
                          }));
  return std::move(table).finish(path);
}

}  // namespace

Result<CsvTable> read_csv(Files& files, const Path& path, const CsvLayout& layout,
                          const Path& cache) {
  MUSTER_ASSIGN(const Content content, read_maybe_gzip(files, path, cache));
  Result<CsvTable> table = parse(
      {reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()}, path, layout);
  if (table) return table;
  return with_context(std::move(table).error(), fmt::format("[data/csv] {}", path.string()));
}

CsvLayout guess_layout(std::string_view beginning) {
  std::string_view line = without_mark(beginning);
  line = line.substr(0, line.find_first_of("\r\n"));
  CsvLayout layout;
  std::ptrdiff_t most = 0;
  for (const char delimiter : {',', '\t', ';', '|'}) {
    const auto times = std::ranges::count(line, delimiter);
    if (times > most) layout.delimiter = delimiter;
    most = std::max(most, times);
  }
  (void)for_each_row(
      line, layout.delimiter, [&layout](const std::vector<std::string>& cells, std::int64_t) {
        layout.header = std::ranges::none_of(
            cells, [](const std::string& cell) { return number_in(cell).has_value(); });
        return ok();
      });
  return layout;
}

}  // namespace muster::data
