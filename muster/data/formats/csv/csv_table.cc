#include "muster/data/formats/csv/csv_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "muster/base/number.h"
#include "muster/base/units.h"
#include "muster/base/utf8.h"
#include "muster/data/formats/csv/csv_rows.h"
#include "muster/data/gzip.h"

namespace muster::data {
namespace {

using Words = std::unordered_set<std::string>;

std::optional<double> number_in(std::string cell, char decimal) {
  if (decimal != '.') {
    if (cell.find('.') != std::string::npos) return std::nullopt;  // thousands, perhaps
    std::ranges::replace(cell, decimal, '.');
  }
  std::string_view text = cell;
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto value = number_from<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

constexpr std::size_t kShown = 40;  // bytes of a cell, enough to know it by

// A column as it grows. What it turns out not to be is let go at once.
class ColumnBuilder {
 public:
  ColumnBuilder(std::string name, char decimal, const Words& missing)
      : decimal_(decimal), missing_(missing) {
    column_.name = std::move(name);
  }

  void add(const std::string& cell, std::int64_t line) {
    const bool missing = cell.empty() || missing_.contains(cell);
    if (missing) ++column_.missing;
    add_number(missing, cell, line);
    add_word(cell);
  }

  CsvColumn finish() && { return std::move(column_); }

 private:
  void add_number(bool missing, const std::string& cell, std::int64_t line) {
    const auto number =
        missing ? std::numeric_limits<double>::quiet_NaN() : number_in(cell, decimal_);
    if (number && column_.others == 0) return column_.numbers.push_back(*number);
    if (number || column_.others++ > 0) return;
    column_.other = fmt::format("`{}` on line {}", utf8_front(cell, kShown), line);
    column_.numbers = {};
  }

  void add_word(const std::string& cell) {
    if (!column_.has_words) return;
    if (cell.empty()) return column_.codes.push_back(-1);
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

  char decimal_;
  const Words& missing_;
  CsvColumn column_;
  std::unordered_map<std::string, std::int32_t> places_;
};

// The first row's words, or for want of them the columns' places.
std::vector<std::string> names_of(const std::vector<std::string>& first, bool header) {
  std::vector<std::string> names;
  names.reserve(first.size());
  for (std::size_t i = 0; i < first.size(); ++i)
    names.push_back(header && !first[i].empty() ? first[i] : fmt::format("{}", i + 1));
  return names;
}

class TableBuilder {
 public:
  explicit TableBuilder(const CsvLayout& layout)
      : decimal_(layout.decimal),
        missing_(layout.missing.begin(), layout.missing.end()),
        header_is_next_(layout.header) {}

  Status add(const std::vector<std::string>& cells, std::int64_t line) {
    if (columns_.empty()) MUSTER_TRY(begin(cells));
    if (std::exchange(header_is_next_, false)) return ok();
    if (cells.size() != columns_.size())
      return fail(
          ErrorCode::kInvalid,
          fmt::format(
              "line {} has {}, and the first row has {}: does data.delimiter fit, are cells "
              "that contain it quoted, is a comment or a title to be taken away?",
              line, counted(std::ssize(cells), "cell"), columns_.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) columns_[i].add(cells[i], line);
    lines_.push_back(line);
    return ok();
  }

  Result<CsvTable> finish(const Path& path) && {
    if (lines_.empty()) return fail(ErrorCode::kInvalid, "there are no rows");
    CsvTable table{path, {}, std::move(lines_), std::move(places_)};
    for (ColumnBuilder& column : columns_) table.columns.push_back(std::move(column).finish());
    return table;
  }

 private:
  Status begin(const std::vector<std::string>& cells) {
    for (const std::string& name : names_of(cells, header_is_next_)) {
      if (!places_.emplace(name, columns_.size()).second)
        return fail(
            ErrorCode::kInvalid,
            fmt::format("column {} is called `{}` by the first row, like another one; where "
                        "that is no header, set data.header: false",
                        columns_.size() + 1, utf8_front(name, kShown)));
      columns_.emplace_back(name, decimal_, missing_);
    }
    return ok();
  }

  char decimal_;
  Words missing_;
  bool header_is_next_;
  std::vector<ColumnBuilder> columns_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<std::int64_t> lines_;
};

// A name or a word in another encoding would be another one to everybody who reads it.
Status check_encoding(std::string_view text) {
  const std::size_t valid = utf8_prefix(text);
  const std::size_t zero = text.find('\0');
  if (valid == text.size() && zero == text.npos) return ok();
  const auto line = 1 + std::ranges::count(text.substr(0, std::min(valid, zero)), '\n');
  if (zero < valid)
    return fail(ErrorCode::kInvalid,
                fmt::format("line {} holds a byte that is zero: if it is UTF-16, convert it with "
                            "`iconv -f utf16 -t utf8`",
                            line));
  return fail(ErrorCode::kInvalid,
              fmt::format("line {} is no UTF-8: if it is Latin-1, convert it with `iconv -f latin1 "
                          "-t utf8`",
                          line));
}

Result<CsvTable> parse(std::string_view text, const Path& path, const CsvLayout& layout) {
  MUSTER_TRY(check_encoding(text));
  TableBuilder table(layout);
  MUSTER_TRY(for_each_row(text, layout.delimiter,
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

const CsvColumn* CsvTable::find(const std::string& name) const {
  const auto place = places.find(name);
  return place == places.end() ? nullptr : &columns[place->second];
}

std::vector<std::string> usual_missing() {
  return {"#N/A",   "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan",
          "1.#IND", "1.#QNAN",  "<NA>", "N/A",     "NA",       "NULL", "NaN",
          "None",   "n/a",      "nan",  "null",    "?"};
}

}  // namespace muster::data
