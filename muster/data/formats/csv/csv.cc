#include "muster/data/formats/csv/csv.h"

#include <numeric>
#include <utility>

#include "muster/data/formats/csv/csv_encoding.h"

namespace muster::data {

Result<CsvSets> create_csv_sources(Files& files, const CsvOptions& options) {
  MUSTER_ASSIGN(const CsvTable table, read_csv(files, options.path, options.layout, options.cache));
  return create_csv_sources(files, table, options);
}

Result<CsvSets> create_csv_sources(Files& files, const CsvTable& table, const CsvOptions& options) {
  Parts parts;
  if (options.validation_path.empty()) {
    MUSTER_ASSIGN(parts, hold_out(table.rows(), options.validation_fraction));
  } else {
    parts.training.resize(static_cast<std::size_t>(table.rows()));
    std::iota(parts.training.begin(), parts.training.end(), 0);
  }
  MUSTER_ASSIGN(CsvEncoding encoding, learn_encoding(table, options, parts.training));
  Checksum sum;
  MUSTER_ASSIGN(const SourcePtr whole, encode(table, encoding, sum));
  SourcePair sources{.training = whole, .validation = nullptr};
  if (options.validation_path.empty()) {
    sources = {subset(whole, std::move(parts.training)),
               subset(whole, std::move(parts.validation))};
  } else {
    MUSTER_ASSIGN(const CsvTable other,
                  read_csv(files, options.validation_path, options.layout, options.cache));
    MUSTER_ASSIGN(sources.validation, encode(other, encoding, sum));
  }
  sources.fingerprint = sum.value();
  return CsvSets{std::move(sources), std::move(encoding.features), std::move(encoding.target),
                 std::move(encoding.classes)};
}

}  // namespace muster::data
