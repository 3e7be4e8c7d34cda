#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "muster/app/data/data_look_kinds.h"
#include "muster/base/lowered.h"
#include "muster/base/units.h"
#include "muster/data/formats/csv/csv.h"
#include "muster/data/formats/csv/csv_encoding.h"
#include "muster/data/gzip.h"

namespace muster::app {
namespace {

constexpr std::size_t kBeginning = 1 << 16;  // bytes in which the first row ends
constexpr std::int64_t kMostClasses = 100;   // of a column that is guessed to be the target
constexpr std::int64_t kRowsOfAClass = 5;    // on average

// Words or numbers that come again and again, in every row: of one without a label nothing is
// learnt.
bool can_be_target(const data::CsvColumn& column, std::int64_t rows) {
  const std::int64_t count = std::ssize(column.words);
  return column.has_words && column.missing == 0 && count >= 2 && count <= kMostClasses &&
         rows >= kRowsOfAClass * count;
}

// By name, the surest first, or else the last that could be one.
const data::CsvColumn* target_of(const data::CsvTable& table) {
  for (const std::string_view name :
       {"target", "label", "class", "diagnosis", "outcome", "species", "survived", "category", "y"})
    for (const data::CsvColumn& column : table.columns)
      if (lowered(column.name) == name && can_be_target(column, table.rows())) return &column;
  for (auto column = table.columns.rbegin(); column != table.columns.rend(); ++column)
    if (can_be_target(*column, table.rows())) return &*column;
  return nullptr;
}

Result<const data::CsvColumn*> guess_target(const data::CsvTable& table, const Path& path) {
  if (const data::CsvColumn* const target = target_of(table)) return target;
  return fail(ErrorCode::kUnsupported,
              fmt::format("[data/look] {}: of {} none holds 2 to {} different values, each in {} "
                          "rows or more and one in every row, which could be classes; muster "
                          "learns classes",
                          path.string(), counted(std::ssize(table.columns), "column"), kMostClasses,
                          kRowsOfAClass));
}

Result<const data::CsvColumn*> named_target(const data::CsvTable& table, const Path& path,
                                            const std::string& name) {
  const auto column = std::ranges::find(table.columns, name, &data::CsvColumn::name);
  if (column == table.columns.end()) {
    const auto names = table.columns | std::views::transform(&data::CsvColumn::name);
    return fail(ErrorCode::kInvalid, fmt::format("[data/look] {} has no column `{}`; it has {}",
                                                 path.string(), name, fmt::join(names, ", ")));
  }
  if (column->missing > 0)
    return fail(ErrorCode::kUnsupported,
                fmt::format("[data/look] {}: column `{}` is empty in {}, of which nothing is "
                            "learnt; fill it in, or leave these rows out",
                            path.string(), name, counted(column->missing, "row")));
  if (can_be_target(*column, table.rows())) return &*column;
  return fail(
      ErrorCode::kUnsupported,
      fmt::format("[data/look] {}: column `{}` does not hold 2 to {} different values, each "
                  "in {} rows or more, which could be classes; muster learns classes",
                  path.string(), name, kMostClasses, kRowsOfAClass));
}

// Numbers that only count the rows tell nothing of them.
bool counts_rows(const data::CsvColumn& column) {
  if (!column.is_numeric() || column.numbers.size() < 3) return false;
  for (std::size_t row = 1; row < column.numbers.size(); ++row)
    if (column.numbers[row] != column.numbers[row - 1] + 1) return false;
  return true;
}

std::optional<std::string> why_useless(const data::CsvColumn& column, std::int64_t rows) {
  if (column.missing == rows) return "is empty";
  if (counts_rows(column)) return "only counts the rows";
  return data::why_no_feature(column);
}

void note_columns(const data::CsvTable& table, LabelledTable& found) {
  for (const data::CsvColumn& column : table.columns) {
    if (column.name == found.target) continue;
    if (auto why = why_useless(column, table.rows())) {
      found.ignore.push_back({column.name, std::move(*why)});
      continue;
    }
    ++found.columns;
    if (!column.is_numeric()) found.of_words.push_back(column.name);
  }
}

// Where every column but the target is left out, nobody else knows what for.
Status check_columns(const LabelledTable& found, const Path& path) {
  if (found.columns > 0) return ok();
  std::string why;
  for (const IgnoredColumn& column : found.ignore)
    why += fmt::format("{}`{}` {}", why.empty() ? "" : ", ", column.name, column.why);
  return fail(ErrorCode::kUnsupported,
              fmt::format("[data/look] {}: there is no column to learn `{}` from: {}; add one{}",
                          path.string(), found.target, why.empty() ? "the table has no other" : why,
                          why.empty() ? "" : ", or correct one of these"));
}

}  // namespace

bool is_table_name(const Path& path) {
  std::string name = lowered(path.filename().string());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

Result<DataFound> look_at_table(Files& files, const Path& path, const std::string& named) {
  MUSTER_ASSIGN(const data::Content content, data::read_maybe_gzip(files, path));
  const auto beginning = content.bytes.first(std::min(content.bytes.size(), kBeginning));
  const data::CsvLayout layout =
      data::guess_layout({reinterpret_cast<const char*>(beginning.data()), beginning.size()});
  MUSTER_ASSIGN(const data::CsvTable table, data::read_csv(files, path, layout));
  MUSTER_ASSIGN(const data::CsvColumn* const target,
                named.empty() ? guess_target(table, path) : named_target(table, path, named));
  LabelledTable found{.validation_split = share_held_out(table.rows()),
                      .target = target->name,
                      .delimiter = layout.delimiter,
                      .header = layout.header,
                      .decimal_comma = layout.decimal == ','};
  note_columns(table, found);
  MUSTER_TRY(check_columns(found, path));
  data::CsvOptions options{.path = path,
                           .validation_fraction = found.validation_split,
                           .layout = layout,
                           .target = found.target};
  for (const IgnoredColumn& column : found.ignore) options.ignore.push_back(column.name);
  MUSTER_ASSIGN(const data::CsvSets sets, data::create_csv_sources(files, table, options));
  found.training = sets.sources.training->size();
  found.validation = sets.sources.validation->size();
  found.classes = sets.classes;
  return DataFound(std::move(found));
}

}  // namespace muster::app
