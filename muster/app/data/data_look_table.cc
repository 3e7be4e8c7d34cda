#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "muster/app/data/data_look_kinds.h"
#include "muster/base/units.h"
#include "muster/data/formats/csv/csv.h"
#include "muster/data/formats/csv/csv_encoding.h"
#include "muster/data/gzip.h"

namespace muster::app {
namespace {

constexpr std::size_t kBeginning = 1 << 16;  // bytes in which the first row ends
constexpr std::int64_t kMostClasses = 100;   // of a column that is guessed to be the target

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool can_be_target(const data::CsvColumn& column) {
  return column.has_words && std::ssize(column.words) >= 2 &&
         std::ssize(column.words) <= kMostClasses;
}

// By name, or else the last that could be one.
const data::CsvColumn* target_of(const data::CsvTable& table) {
  constexpr std::array<std::string_view, 6> kNames = {"target", "label",   "class",
                                                      "y",      "species", "category"};
  const data::CsvColumn* last = nullptr;
  for (const data::CsvColumn& column : table.columns) {
    if (!can_be_target(column)) continue;
    if (std::ranges::find(kNames, lower(column.name)) != kNames.end()) return &column;
    last = &column;
  }
  return last;
}

// Numbers that only count the rows tell nothing of them.
bool counts_rows(const data::CsvColumn& column) {
  if (!column.is_numeric || column.numbers.size() < 3) return false;
  for (std::size_t row = 1; row < column.numbers.size(); ++row)
    if (column.numbers[row] != column.numbers[row - 1] + 1) return false;
  return true;
}

std::vector<std::string> useless_columns(const data::CsvTable& table,
                                         const data::CsvColumn* target) {
  std::vector<std::string> names;
  for (const data::CsvColumn& column : table.columns)
    if (&column != target && (data::is_neither(column) || counts_rows(column)))
      names.push_back(column.name);
  return names;
}

}  // namespace

bool is_table_name(const Path& path) {
  std::string name = lower(path.filename().string());
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.ends_with(".csv") || name.ends_with(".tsv");
}

Result<DataFound> look_at_table(Files& files, const Path& path) {
  MUSTER_ASSIGN(const data::Content content, data::read_maybe_gzip(files, path));
  const auto beginning = content.bytes.first(std::min(content.bytes.size(), kBeginning));
  LabelledTable found;
  const data::CsvLayout layout =
      data::guess_layout({reinterpret_cast<const char*>(beginning.data()), beginning.size()});
  found.delimiter = layout.delimiter;
  found.header = layout.header;
  MUSTER_ASSIGN(const data::CsvTable table, data::read_csv(files, path, layout));
  const data::CsvColumn* const target = target_of(table);
  if (target == nullptr)
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("[data/look] {}: of {} none holds 2 to {} different values, which could "
                    "be classes; muster learns those",
                    path.string(), counted(std::ssize(table.columns), "column"), kMostClasses));
  found.target = target->name;
  found.ignore = useless_columns(table, target);
  found.validation_split = share_held_out(table.rows());
  MUSTER_ASSIGN(const data::CsvSets sets,
                data::create_csv_sources(files, {.path = path,
                                                 .validation_fraction = found.validation_split,
                                                 .layout = layout,
                                                 .target = found.target,
                                                 .ignore = found.ignore}));
  found.training = sets.sources.training->size();
  found.validation = sets.sources.validation->size();
  found.columns = std::ssize(sets.features);
  found.classes = sets.classes;
  return DataFound(std::move(found));
}

}  // namespace muster::app
