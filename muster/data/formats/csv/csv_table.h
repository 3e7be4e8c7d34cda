#pragma once
// A CSV file (RFC 4180, read by libcsv) column by column: each as numbers, as words, or as both, as
// far as its cells allow.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"

namespace muster::data {

inline constexpr std::int64_t kMostWords = 4096;  // of a column, that are told apart

struct CsvColumn {
  std::string name;
  std::int64_t missing = 0;  // cells that CsvLayout::missing names
  std::int64_t others = 0;   // cells that are neither missing nor a finite number
  std::string other;         // the first of those, with its line: "`-` on line 7"

  std::vector<double> numbers;      // where there are no others: one a row, NaN where missing
  bool has_words = true;            // there are at most kMostWords different cells
  std::vector<std::string> words;   // those, missing ones too, but for empty cells
  std::vector<std::int32_t> codes;  // one a row: its place in `words`, -1 where the cell is empty

  bool is_numeric() const noexcept { return others == 0; }
};

struct CsvTable {
  Path path;
  std::vector<CsvColumn> columns;
  std::vector<std::int64_t> lines;  // on which each row ends, counted from 1

  std::int64_t rows() const noexcept { return std::ssize(lines); }
  const CsvColumn* find(const std::string& name) const;  // null: there is none of that name

  std::unordered_map<std::string, std::size_t> places = {};  // of columns by name
};

// The words that pandas takes for missing, and the question mark of many a public table.
std::vector<std::string> usual_missing();

struct CsvLayout {
  char delimiter = ',';
  bool header = true;  // the first row names the columns; else they are called 1, 2, …
  char decimal = '.';  // or a comma
  std::vector<std::string> missing = usual_missing();  // besides the empty cell
};

// Plain or gzip (data/gzip.h, which says what `cache` is for); UTF-8. Blanks around a cell do not
// count, nor do empty lines; a column that the header leaves without a name is called by its place,
// as pandas's index is. kInvalid, with line and column, for a row of another length, a quote in the
// wrong place, a name given twice, text in another encoding, and a table without rows.
Result<CsvTable> read_csv(Files& files, const Path& path, const CsvLayout& layout,
                          const Path& cache = {});

// What a file seems to have, by its first two rows: for a first look, from its beginning. The first
// row is a header where a word stands above a number, where it counts 0, 1, 2, …, and where all its
// cells are different words.
CsvLayout guess_layout(std::string_view beginning);

}  // namespace muster::data
