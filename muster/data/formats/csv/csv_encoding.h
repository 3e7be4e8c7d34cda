#pragma once
// How the cells of a table become values and labels: learnt from the training table, applied to
// every table alike.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "muster/base/checksum.h"
#include "muster/data/formats/csv/csv.h"

namespace muster::data {

struct CsvEncoding {
  std::vector<CsvFeature> features;
  std::string target;
  bool target_is_numeric = false;
  std::vector<std::string> classes;
  std::int64_t width() const noexcept;  // values of a sample
};

// `rows`: those of `table` that are for training, from which means, deviations and words come;
// classes come from all. kInvalid as create_csv_sources() says.
Result<CsvEncoding> learn_encoding(const CsvTable& table, const CsvOptions& options,
                                   std::span<const std::int64_t> rows);

// Every row of `table`, encoded as it is read. kInvalid as create_csv_sources() says.
// What it holds is added to `sum`.
Result<SourcePtr> encode(const CsvTable& table, const CsvEncoding& encoding, Checksum& sum);

// Why a column is no feature; nothing: it is one.
std::optional<std::string> why_no_feature(const CsvColumn& column);

}  // namespace muster::data
