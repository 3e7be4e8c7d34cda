#pragma once
// A CSV file (RFC 4180, read by libcsv) column by column: each as numbers, as words, or as both, as
// far as its cells allow.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster::data {

inline constexpr std::int64_t kMostWords = 4096;  // of a column, that are told apart

struct CsvColumn {
  std::string name;
  std::int64_t missing = 0;  // cells that are empty, NA, N/A, NaN, null, None or ?

  bool is_numeric = true;       // every other cell is a finite number
  std::string other;            // the first cell that is none, with its line
  std::vector<double> numbers;  // of a numeric column: one a row, NaN where missing

  bool has_words = true;            // there are at most kMostWords different cells
  std::vector<std::string> words;   // those: ascending as numbers, or else as bytes
  std::vector<std::int32_t> codes;  // one a row: its place in `words`, -1 where missing
};

struct CsvTable {
  Path path;
  std::vector<CsvColumn> columns;
  std::vector<std::int64_t> lines;  // on which each row ends, counted from 1

  std::int64_t rows() const noexcept { return std::ssize(lines); }
};

struct CsvLayout {
  char delimiter = ',';
  bool header = true;  // the first row names the columns; else they are called 1, 2, …
};

// Plain or gzip (data/gzip.h, which says what `cache` is for). Blanks around a cell do not count,
// nor do empty lines. kInvalid, with line and column, for a row of another length, a quote in the
// wrong place, names that are missing or given twice, and a table without rows.
Result<CsvTable> read_csv(Files& files, const Path& path, const CsvLayout& layout,
                          const Path& cache = {});

// The delimiter and header that a file seems to have: for a first look, from its beginning. Empty
// lines apart, the first line is a header where none of its cells is a number.
CsvLayout guess_layout(std::string_view beginning);

}  // namespace muster::data
