#pragma once
// Tables as CSV files: a row is a sample, one column its class, the others become numbers.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/data/formats/csv/csv_table.h"
#include "muster/data/hold_out.h"

namespace muster::data {

inline constexpr std::int64_t kMostCategories = 256;  // of a column of words

struct CsvOptions {
  Path path = {};
  Path validation_path = {};             // a table with the same columns; empty: the next
  double validation_fraction = 0;        // of the rows of `path`, chosen by hold_out()
  CsvLayout layout = {};                 // of both
  std::string target = {};               // the column of classes; empty: the last that counts
  std::vector<std::string> ignore = {};  // columns that are left out
  std::int64_t classes = 0;              // at most so many; 0: any number
  Path cache = {};                       // folder for inflated copies (data/gzip.h)
};

// What a column becomes. Numbers: one value, less the mean and divided by the standard deviation
// of the training rows (by 1 where they are all the same, or so near each other that it is below
// 2.2e-308), 0 where missing. Words: one value for each of the training rows', ascending as bytes,
// 1 for the row's own and 0 for the others, all 0 where it is missing or none of them. A column in
// which nine of ten cells are numbers is one of numbers, and anything else in it a mistake.
struct CsvFeature {
  std::string column;
  bool is_numeric = true;
  double mean = 0;
  double std = 1;
  std::vector<std::string> words = {};
  std::int64_t width() const noexcept { return is_numeric ? 1 : std::ssize(words); }
};

struct CsvSets {
  SourcePair sources;
  std::vector<CsvFeature> features;  // in the order of their values
  std::string target;
  std::vector<std::string> classes;  // by label: ascending as numbers, or else as bytes
};

// Fields: "input" F32 [sum of widths], "target" I64 []. A table is read whole, then held as a
// number or a place in a list of words a cell. Errors: those of read_csv(); kInvalid, with file and
// column, for a column that is neither numbers nor a few words, for an unknown name in `target` or
// `ignore`, for a row without a class or of a class that is not in the training table, for more
// classes than `classes`, and for a number that is too large for F32 once it is standardised.
Result<CsvSets> create_csv_sources(Files& files, const CsvOptions& options);

// The same of a training table that has been read.
Result<CsvSets> create_csv_sources(Files& files, const CsvTable& table, const CsvOptions& options);

}  // namespace muster::data
