#pragma once
// How the cells of a table become values and labels: learnt from the training table, applied to
// every table alike.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "muster/data/formats/csv/csv.h"

namespace muster::data {

struct CsvEncoding {
  std::vector<CsvFeature> features;
  std::string target;
  std::vector<std::string> classes;
  std::int64_t width() const noexcept;  // values of a sample
};

// `rows`: those of `table` that are for training, from which means and deviations come; words and
// classes come from all. kInvalid as create_csv_sources() says.
Result<CsvEncoding> learn_encoding(const CsvTable& table, const CsvOptions& options,
                                   std::span<const std::int64_t> rows);

// Every row of `table`, encoded. kInvalid as create_csv_sources() says.
Result<SourcePtr> encode(const CsvTable& table, const CsvEncoding& encoding);

// A column that holds neither numbers nor few enough words to be a feature.
bool is_neither(const CsvColumn& column);

}  // namespace muster::data
