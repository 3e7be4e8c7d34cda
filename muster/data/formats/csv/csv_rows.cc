#include "muster/data/formats/csv/csv_rows.h"

#include <csv.h>
#include <fmt/format.h>

#include <utility>

namespace muster::data {
namespace {

// One parser of libcsv, which calls back from C: nothing thrown may pass through it.
class Rows {
 public:
  explicit Rows(char delimiter) {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    csv_set_delim(&parser_, static_cast<unsigned char>(delimiter));
  }
  ~Rows() { csv_free(&parser_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  Status feed(std::string_view part) {
    const std::size_t read =
        csv_parse(&parser_, part.data(), part.size(), &Rows::cell, &Rows::row, this);
    return read == part.size() ? ok() : broken();
  }
  Status finish() {
    if (csv_fini(&parser_, &Rows::cell, &Rows::row, this) == 0) return ok();
    return fail(ErrorCode::kInvalid, "it ends within a quoted cell: which quote is not closed?");
  }

  // Those that have ended, in their order; a carriage return alone ends one as well.
  std::vector<std::vector<std::string>>& ended() noexcept { return rows_; }
  bool within_a_row() const noexcept { return !cells_.empty() || parser_.entry_pos > 0; }

 private:
  static void cell(void* bytes, std::size_t size, void* rows) noexcept {
    static_cast<Rows*>(rows)->cells_.emplace_back(static_cast<const char*>(bytes), size);
  }
  static void row(int, void* rows) noexcept {
    auto* const self = static_cast<Rows*>(rows);
    self->rows_.push_back(std::move(self->cells_));
    self->cells_.clear();
  }

  Status broken() {
    const int error = csv_error(&parser_);
    if (error == CSV_EPARSE)
      return fail(
          ErrorCode::kInvalid,
          "a quote where none may be: a cell is quoted from its first character to its last, "
          "and a quote within it is written twice");
    return fail(ErrorCode::kUnavailable, csv_strerror(error));
  }

  csv_parser parser_{};
  std::vector<std::string> cells_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace

Status for_each_row(
    std::string_view text, char delimiter,
    const std::function<Status(const std::vector<std::string>& cells, std::int64_t line)>& take) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // that some programs put before UTF-8
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  Rows rows(delimiter);
  std::int64_t line = 0;
  std::int64_t began = 0;  // the line on which the row under way began
  const auto told = [&began](Error error) {
    return with_context(std::move(error), fmt::format("line {}", began));
  };
  const auto take_rows = [&]() -> Status {
    for (const std::vector<std::string>& cells : rows.ended()) MUSTER_TRY(take(cells, line));
    rows.ended().clear();
    return ok();
  };
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    ++line;
    if (!rows.within_a_row()) began = line;
    if (Status fed = rows.feed(text.substr(0, size)); !fed) return told(std::move(fed).error());
    MUSTER_TRY(take_rows());
    text.remove_prefix(size);
  }
  if (Status ended = rows.finish(); !ended) return told(std::move(ended).error());
  return take_rows();
}

}  // namespace muster::data
