#include "muster/data/formats/csv/csv_encoding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace muster::data {
namespace {

class TableSource final : public Source {
 public:
  TableSource(std::vector<float> values, std::vector<std::int64_t> labels, std::int64_t width)
      : values_(std::move(values)),
        labels_(std::move(labels)),
        width_(width),
        fields_{{"input", DType::kF32, {width}}, {"target", DType::kI64, {}}} {}

  std::int64_t size() const noexcept override { return std::ssize(labels_); }
  const std::vector<FieldSpec>& fields() const noexcept override { return fields_; }
  Status read(std::int64_t index, std::span<const TensorView> into) const override {
    std::memcpy(into[0].bytes.data(), values_.data() + index * width_, into[0].bytes.size());
    into[1].as<std::int64_t>()[0] = labels_[static_cast<std::size_t>(index)];
    return ok();
  }

 private:
  std::vector<float> values_;  // row by row
  std::vector<std::int64_t> labels_;
  std::int64_t width_;
  std::vector<FieldSpec> fields_;
};

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
  const auto place = std::ranges::find(table.columns, name, &CsvColumn::name);
  if (place != table.columns.end()) return &*place;
  std::vector<std::string> names;
  names.reserve(table.columns.size());
  for (const CsvColumn& column : table.columns) names.push_back(column.name);
  return wrong(table,
               fmt::format("there is no column `{}`{}; there are {}", name, field, listed(names)));
}

Result<std::vector<std::string>> classes_of(const CsvTable& table, const CsvColumn& column,
                                            std::int64_t most) {
  if (!column.has_words)
    return wrong(table, fmt::format("column `{}`, the target, holds more than {} different values: "
                                    "these are no classes; name another one in data.target",
                                    column.name, kMostWords));
  const std::int64_t count = std::ssize(column.words);
  if (most == 0 || count <= most) return column.words;
  return wrong(table, fmt::format("column `{}`, the target, holds {} different values, but "
                                  "model.classes is {}",
                                  column.name, count, most));
}

CsvFeature of_numbers(const CsvColumn& column, std::span<const std::int64_t> rows) {
  double sum = 0, count = 0;
  const auto for_each_number = [&](const auto& take) {
    for (const std::int64_t row : rows)
      if (const double value = column.numbers[static_cast<std::size_t>(row)]; !std::isnan(value))
        take(value);
  };
  for_each_number([&](double value) { sum += value, ++count; });
  const double mean = count > 0 ? sum / count : 0;
  double squares = 0;
  for_each_number([&](double value) { squares += (value - mean) * (value - mean); });
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  return {column.name, mean, deviation > 0 ? deviation : 1, {}};
}

Result<CsvFeature> feature_of(const CsvTable& table, const CsvColumn& column,
                              std::span<const std::int64_t> rows) {
  if (column.is_numeric) return of_numbers(column, rows);
  if (!is_neither(column)) return CsvFeature{column.name, 0, 1, column.words};
  return wrong(table, fmt::format("column `{}` is neither numbers ({}) nor at most {} different "
                                  "words; leave it out with data.ignore",
                                  column.name, column.other, kMostCategories));
}

Status encode_numbers(const CsvTable& table, const CsvColumn& column, const CsvFeature& feature,
                      float* to, std::int64_t width) {
  if (!column.is_numeric)
    return wrong(table, fmt::format("column `{}` holds {}; in the training table it is numbers",
                                    column.name, column.other));
  for (const double value : column.numbers) {
    *to = std::isnan(value) ? 0 : static_cast<float>((value - feature.mean) / feature.std);
    to += width;
  }
  return ok();
}

using Places = std::unordered_map<std::string, std::int64_t>;

Places places_of(const std::vector<std::string>& words) {
  Places places;
  for (std::size_t i = 0; i < words.size(); ++i)
    places.emplace(words[i], static_cast<std::int64_t>(i));
  return places;
}

Status encode_words(const CsvTable& table, const CsvColumn& column, const CsvFeature& feature,
                    float* to, std::int64_t width) {
  if (!column.has_words)
    return wrong(table, fmt::format("column `{}` holds more than {} different words; in the "
                                    "training table there are {}",
                                    column.name, kMostWords, feature.words.size()));
  const Places places = places_of(feature.words);
  for (const std::int32_t code : column.codes) {
    if (code >= 0)
      if (const auto place = places.find(column.words[static_cast<std::size_t>(code)]);
          place != places.end())
        to[place->second] = 1;
    to += width;
  }
  return ok();
}

Result<std::vector<std::int64_t>> labels_in(const CsvTable& table, const CsvEncoding& encoding) {
  MUSTER_ASSIGN(const CsvColumn* column, column_of(table, encoding.target, ", the target"));
  const Places places = places_of(encoding.classes);
  std::vector<std::int64_t> labels;
  for (std::size_t row = 0; row < table.lines.size(); ++row) {
    const std::int32_t code = column->has_words ? column->codes[row] : 0;
    const std::string word = column->has_words && code >= 0
                                 ? column->words[static_cast<std::size_t>(code)]
                                 : std::string();
    const auto place = places.find(word);
    if (place == places.end())
      return wrong(table,
                   fmt::format("line {}: {} in column `{}`, the target; the classes are {}",
                               table.lines[row], code < 0 ? "nothing" : fmt::format("`{}`", word),
                               column->name, listed(encoding.classes)));
    labels.push_back(place->second);
  }
  return labels;
}

}  // namespace

std::int64_t CsvEncoding::width() const noexcept {
  std::int64_t width = 0;
  for (const CsvFeature& feature : features) width += feature.width();
  return width;
}

bool is_neither(const CsvColumn& column) {
  return !column.is_numeric && (!column.has_words || std::ssize(column.words) > kMostCategories);
}

Result<CsvEncoding> learn_encoding(const CsvTable& table, const CsvOptions& options,
                                   std::span<const std::int64_t> rows) {
  const std::string name = options.target.empty() ? table.columns.back().name : options.target;
  MUSTER_ASSIGN(const CsvColumn* target, column_of(table, name, " (data.target)"));
  for (const std::string& ignored : options.ignore)
    MUSTER_TRY(column_of(table, ignored, " (data.ignore)"));
  CsvEncoding encoding{{}, name, {}};
  MUSTER_ASSIGN(encoding.classes, classes_of(table, *target, options.classes));
  for (const CsvColumn& column : table.columns) {
    const bool ignored = std::ranges::find(options.ignore, column.name) != options.ignore.end();
    if (&column == target || ignored) continue;
    MUSTER_ASSIGN(CsvFeature feature, feature_of(table, column, rows));
    encoding.features.push_back(std::move(feature));
  }
  if (encoding.width() == 0)
    return wrong(table, "there is no column to learn from beside the target");
  return encoding;
}

Result<SourcePtr> encode(const CsvTable& table, const CsvEncoding& encoding) {
  MUSTER_ASSIGN(std::vector<std::int64_t> labels, labels_in(table, encoding));
  const std::int64_t width = encoding.width();
  std::vector<float> values(static_cast<std::size_t>(table.rows() * width));
  float* to = values.data();
  for (const CsvFeature& feature : encoding.features) {
    MUSTER_ASSIGN(const CsvColumn* column, column_of(table, feature.column, ""));
    MUSTER_TRY(feature.words.empty() ? encode_numbers(table, *column, feature, to, width)
                                     : encode_words(table, *column, feature, to, width));
    to += feature.width();
  }
  return std::make_shared<TableSource>(std::move(values), std::move(labels), width);
}

}  // namespace muster::data
