#include "muster/data/formats/csv/csv_encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "muster/base/units.h"

namespace muster::data {
namespace {

// Of so many cells that are numbers one that is none is a mistake, or means that one is missing.
constexpr std::int64_t kNumbersForOneOther = 9;

Error wrong(const CsvTable& table, std::string what) {
  return fail(ErrorCode::kInvalid, fmt::format("[data/csv] {}: {}", table.path.string(), what));
}

// The first of them: tables have thousands of columns.
std::string listed(std::span<const std::string> names) {
  constexpr std::size_t kMost = 12;
  const bool all = names.size() <= kMost;
  return fmt::format("{}{}", fmt::join(names.first(all ? names.size() : kMost), ", "),
                     all ? "" : ", …");
}

Result<const CsvColumn*> column_of(const CsvTable& table, const std::string& name,
                                   std::string_view field) {
  if (const CsvColumn* const column = table.find(name)) return column;
  std::vector<std::string> names;
  names.reserve(table.columns.size());
  for (const CsvColumn& column : table.columns) names.push_back(column.name);
  return wrong(table,
               fmt::format("there is no column `{}`{}; there are {}", name, field, listed(names)));
}

// ---- classes

// What tells a row's class: 1 and 1.0 are one. Nothing: it has none.
std::optional<std::string> class_in(const CsvColumn& target, bool by_value, std::size_t row) {
  if (by_value) {
    const double value = target.numbers[row];
    return std::isnan(value) ? std::nullopt : std::optional(fmt::format("{}", value));
  }
  const std::int32_t code = target.codes[row];
  return code < 0 ? std::nullopt : std::optional(target.words[static_cast<std::size_t>(code)]);
}

// Whether classes are told by their value. A column of words for what is missing holds those words.
bool is_numeric_target(const CsvColumn& target, std::int64_t rows) {
  return target.is_numeric() && target.missing < rows;
}

std::vector<std::string> classes_in(const CsvColumn& target, bool by_value) {
  if (!by_value) {
    std::vector<std::string> words = target.words;
    std::ranges::sort(words);
    return words;
  }
  std::set<double> values;
  for (const double value : target.numbers)
    if (!std::isnan(value)) values.insert(value);
  std::vector<std::string> classes;
  classes.reserve(values.size());
  for (const double value : values) classes.push_back(fmt::format("{}", value));
  return classes;
}

Result<std::vector<std::string>> classes_of(const CsvTable& table, const CsvColumn& target,
                                            std::int64_t most) {
  if (!target.has_words)
    return wrong(table, fmt::format("column `{}`, the target, holds more than {} different values: "
                                    "these are no classes; name another one in data.target",
                                    target.name, kMostWords));
  std::vector<std::string> classes = classes_in(target, is_numeric_target(target, table.rows()));
  if (most == 0 || std::ssize(classes) <= most) return classes;
  return wrong(table, fmt::format("column `{}`, the target, holds {} different values, but "
                                  "model.classes is {}",
                                  target.name, classes.size(), most));
}

using Places = std::unordered_map<std::string, std::int64_t>;

Places places_of(const std::vector<std::string>& words) {
  Places places;
  for (std::size_t i = 0; i < words.size(); ++i)
    places.emplace(words[i], static_cast<std::int64_t>(i));
  return places;
}

Result<std::vector<std::int64_t>> labels_in(const CsvTable& table, const CsvEncoding& encoding) {
  MUSTER_ASSIGN(const CsvColumn* target, column_of(table, encoding.target, ", the target"));
  if (!target->has_words) return classes_of(table, *target, 0).error();
  const Places places = places_of(encoding.classes);
  std::vector<std::int64_t> labels;
  labels.reserve(table.lines.size());
  const bool by_value = encoding.target_is_numeric && target->is_numeric();
  for (std::size_t row = 0; row < table.lines.size(); ++row) {
    const auto found = class_in(*target, by_value, row);
    const auto place = found ? places.find(*found) : places.end();
    if (place == places.end())
      return wrong(table,
                   fmt::format("line {}: {} in column `{}`, the target; the classes are {}",
                               table.lines[row], found ? fmt::format("`{}`", *found) : "nothing",
                               target->name, listed(encoding.classes)));
    labels.push_back(place->second);
  }
  return labels;
}

// ---- features

struct Moments {
  double mean = 0, std = 1;
};

// Squares are taken in units of a power of two near the largest deviation: none is too small or too
// large for them, and where all fit without, the bits are the same.
double deviation_of(std::span<const double> numbers, double mean, double farthest) {
  const int unit = std::max(std::ilogb(farthest), std::numeric_limits<double>::min_exponent);
  const double scale = std::scalbn(1.0, -unit);
  double squares = 0;
  for (const double value : numbers) {
    const double far = (value - mean) * scale;
    squares += far * far;
  }
  return std::scalbn(std::sqrt(squares / static_cast<double>(numbers.size())), unit);
}

// A column that is the same everywhere is told by its numbers: their mean may be rounded. Below the
// smallest normal number a deviation has lost its digits, and what is divided by it its range.
Moments moments_of(const CsvColumn& column, std::span<const std::int64_t> rows) {
  std::vector<double> numbers;
  for (const std::int64_t row : rows)
    if (const double value = column.numbers[static_cast<std::size_t>(row)]; !std::isnan(value))
      numbers.push_back(value);
  if (numbers.empty()) return {};
  const auto [least, most] = std::ranges::minmax(numbers);
  if (least == most) return {least, 1};
  double sum = 0;
  for (const double value : numbers) sum += value;
  const double mean = sum / static_cast<double>(numbers.size());
  const double std = deviation_of(numbers, mean, std::max(most - mean, mean - least));
  return {mean, std < std::numeric_limits<double>::min() ? 1 : std};
}

// What stands for a number: 0, the mean, where it is missing.
double standardised(double value, const CsvFeature& feature) noexcept {
  return std::isnan(value) ? 0 : (value - feature.mean) / feature.std;
}

std::vector<std::string> words_in(const CsvColumn& column, const CsvLayout& layout,
                                  std::span<const std::int64_t> rows) {
  const std::set<std::string_view> missing(layout.missing.begin(), layout.missing.end());
  std::set<std::string> words;
  for (const std::int64_t row : rows) {
    const std::int32_t code = column.codes[static_cast<std::size_t>(row)];
    if (code >= 0) words.insert(column.words[static_cast<std::size_t>(code)]);
  }
  std::erase_if(words, [&](const std::string& word) { return missing.contains(word); });
  return {words.begin(), words.end()};
}

Result<CsvFeature> feature_of(const CsvTable& table, const CsvColumn& column,
                              const CsvLayout& layout, std::span<const std::int64_t> rows) {
  if (const auto why = why_no_feature(column))
    return wrong(table, fmt::format("column `{}` {}: correct it, name what means that a value is "
                                    "missing in data.missing, or leave the column out with "
                                    "data.ignore",
                                    column.name, *why));
  if (!column.is_numeric())
    return CsvFeature{column.name, false, 0, 1, words_in(column, layout, rows)};
  const Moments moments = moments_of(column, rows);
  if (!std::isfinite(moments.mean) || !std::isfinite(moments.std))
    return wrong(table, fmt::format("column `{}` holds numbers so large that they have no mean; "
                                    "leave it out with data.ignore",
                                    column.name));
  return CsvFeature{column.name, true, moments.mean, moments.std, {}};
}

// The values of a feature, a column of a table.
class FeatureColumn {
 public:
  FeatureColumn(const CsvColumn& column, const CsvFeature& feature) : width_(feature.width()) {
    if (!feature.is_numeric) {
      take_words(column, feature);
      return;
    }
    values_.reserve(column.numbers.size());
    for (const double value : column.numbers)
      values_.push_back(static_cast<float>(standardised(value, feature)));
  }

  void add_to(Checksum& sum) const noexcept {
    sum.add(std::as_bytes(std::span(values_)));
    sum.add(std::as_bytes(std::span(codes_)));
  }

  // Into `to`, which is zeroed; behind what it wrote.
  float* write(std::size_t row, float* to) const noexcept {
    if (!values_.empty())
      *to = values_[row];
    else if (codes_[row] >= 0)
      to[codes_[row]] = 1;
    return to + width_;
  }

 private:
  void take_words(const CsvColumn& column, const CsvFeature& feature) {
    const Places places = places_of(feature.words);
    std::vector<std::int16_t> of_code;
    of_code.reserve(column.words.size());
    for (const std::string& word : column.words) {
      const auto place = places.find(word);
      of_code.push_back(place == places.end() ? std::int16_t{-1}
                                              : static_cast<std::int16_t>(place->second));
    }
    codes_.reserve(column.codes.size());
    for (const std::int32_t code : column.codes)
      codes_.push_back(code < 0 ? std::int16_t{-1} : of_code[static_cast<std::size_t>(code)]);
  }

  std::int64_t width_;
  std::vector<float> values_;        // of numbers: standardised
  std::vector<std::int16_t> codes_;  // of words: which; -1: none of them
};

class TableSource final : public Source {
 public:
  TableSource(std::vector<FeatureColumn> columns, std::vector<std::int64_t> labels,
              std::int64_t width)
      : columns_(std::move(columns)),
        labels_(std::move(labels)),
        fields_{{"input", DType::kF32, {width}}, {"target", DType::kI64, {}}} {}

  std::int64_t size() const noexcept override { return std::ssize(labels_); }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    const auto row = static_cast<std::size_t>(index);
    std::ranges::fill(into[0].as<float>(), 0.0f);
    float* to = into[0].as<float>().data();
    for (const FeatureColumn& column : columns_) to = column.write(row, to);
    into[1].as<std::int64_t>()[0] = labels_[row];
    return ok();
  }

 private:
  std::vector<FeatureColumn> columns_;
  std::vector<std::int64_t> labels_;
  std::vector<FieldSpec> fields_;
};

Status check_like(const CsvTable& table, const CsvColumn& column, const CsvFeature& feature) {
  if (feature.is_numeric && !column.is_numeric())
    return wrong(table, fmt::format("column `{}` holds {}; in the training table it is numbers",
                                    column.name, column.other));
  if (!feature.is_numeric && !column.has_words)
    return wrong(table, fmt::format("column `{}` holds more than {} different words; in the "
                                    "training table there are {}",
                                    column.name, kMostWords, feature.words.size()));
  return ok();
}

// No training row is that far from the mean of all; others may be anywhere.
Status check_range(const CsvTable& table, const CsvColumn& column, const CsvFeature& feature) {
  if (!feature.is_numeric) return ok();
  constexpr double kMost = std::numeric_limits<float>::max();
  for (std::size_t row = 0; row < column.numbers.size(); ++row) {
    const double value = standardised(column.numbers[row], feature);
    if (std::abs(value) <= kMost) continue;
    return wrong(table,
                 fmt::format("line {}: {} in column `{}`, less {} and divided by {} as for all "
                             "rows, is {}, and no more than {:.2g} can be taken; correct it, or "
                             "leave the column out with data.ignore",
                             table.lines[row], column.numbers[row], column.name, feature.mean,
                             feature.std, value, kMost));
  }
  return ok();
}

// The last column that is not ignored, where none is named.
Result<std::string> target_of(const CsvTable& table, const CsvOptions& options) {
  const auto ignored = [&](const std::string& name) {
    return std::ranges::find(options.ignore, name) != options.ignore.end();
  };
  if (!options.target.empty()) {
    if (!ignored(options.target)) return options.target;
    return wrong(table,
                 fmt::format("column `{}` is data.target and in data.ignore", options.target));
  }
  for (auto column = table.columns.rbegin(); column != table.columns.rend(); ++column)
    if (!ignored(column->name)) return column->name;
  return wrong(table, "data.ignore names all columns");
}

}  // namespace

std::int64_t CsvEncoding::width() const noexcept {
  std::int64_t width = 0;
  for (const CsvFeature& feature : features) width += feature.width();
  return width;
}

std::optional<std::string> why_no_feature(const CsvColumn& column) {
  if (column.is_numeric()) return std::nullopt;
  const std::int64_t rows = column.has_words ? std::ssize(column.codes) : 0;
  const std::int64_t numbers = rows - column.missing - column.others;
  if (numbers >= kNumbersForOneOther * column.others)
    return fmt::format(
        "is numbers but for {}{}", column.other,
        column.others == 1 ? "" : fmt::format(" and {}", counted(column.others - 1, "other cell")));
  if (column.has_words && std::ssize(column.words) <= kMostCategories) return std::nullopt;
  return fmt::format("holds {} words ({} and others); at most {} are told apart",
                     column.has_words ? fmt::format("{}", column.words.size())
                                      : fmt::format("more than {}", kMostWords),
                     column.other, kMostCategories);
}

Result<CsvEncoding> learn_encoding(const CsvTable& table, const CsvOptions& options,
                                   std::span<const std::int64_t> rows) {
  const std::unordered_set<std::string> ignored(options.ignore.begin(), options.ignore.end());
  for (const std::string& name : options.ignore)
    MUSTER_TRY(column_of(table, name, " (data.ignore)"));
  CsvEncoding encoding;
  MUSTER_ASSIGN(encoding.target, target_of(table, options));
  MUSTER_ASSIGN(const CsvColumn* target, column_of(table, encoding.target, " (data.target)"));
  encoding.target_is_numeric = is_numeric_target(*target, table.rows());
  MUSTER_ASSIGN(encoding.classes, classes_of(table, *target, options.classes));
  for (const CsvColumn& column : table.columns) {
    if (&column == target || ignored.contains(column.name)) continue;
    MUSTER_ASSIGN(CsvFeature feature, feature_of(table, column, options.layout, rows));
    encoding.features.push_back(std::move(feature));
  }
  if (encoding.width() == 0)
    return wrong(table, "there is no column to learn from beside the target");
  return encoding;
}

Result<SourcePtr> encode(const CsvTable& table, const CsvEncoding& encoding, Checksum& sum) {
  MUSTER_ASSIGN(std::vector<std::int64_t> labels, labels_in(table, encoding));
  sum.add(std::as_bytes(std::span(labels)));
  std::vector<FeatureColumn> columns;
  columns.reserve(encoding.features.size());
  for (const CsvFeature& feature : encoding.features) {
    MUSTER_ASSIGN(const CsvColumn* column, column_of(table, feature.column, ""));
    MUSTER_TRY(check_like(table, *column, feature));
    MUSTER_TRY(check_range(table, *column, feature));
    columns.emplace_back(*column, feature);
    sum.add(std::as_bytes(std::span(feature.column)));
    columns.back().add_to(sum);
  }
  return std::make_shared<TableSource>(std::move(columns), std::move(labels), encoding.width());
}

}  // namespace muster::data
