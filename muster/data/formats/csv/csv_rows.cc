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

  bool has_row() const noexcept { return has_row_; }
  const std::vector<std::string>& cells() const noexcept { return cells_; }
  void forget_row() {
    has_row_ = false;
    cells_.clear();
  }

 private:
  static void cell(void* bytes, std::size_t size, void* rows) noexcept {
    static_cast<Rows*>(rows)->cells_.emplace_back(static_cast<const char*>(bytes), size);
  }
  static void row(int, void* rows) noexcept { static_cast<Rows*>(rows)->has_row_ = true; }

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
  bool has_row_ = false;
};

}  // namespace

Status for_each_row(
    std::string_view text, char delimiter,
    const std::function<Status(const std::vector<std::string>& cells, std::int64_t line)>& take) {
  Rows rows(delimiter);
  std::int64_t line = 0;
  const auto told = [&line](Error error) {
    return with_context(std::move(error), fmt::format("line {}", line));
  };
  const auto take_row = [&]() -> Status {
    if (!rows.has_row()) return ok();
    MUSTER_TRY(take(rows.cells(), line));
    rows.forget_row();
    return ok();
  };
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size() - 1) + 1;
    ++line;
    if (Status fed = rows.feed(text.substr(0, size)); !fed) return told(std::move(fed).error());
    MUSTER_TRY(take_row());
    text.remove_prefix(size);
  }
  if (Status ended = rows.finish(); !ended) return told(std::move(ended).error());
  return take_row();
}

}  // namespace muster::data
