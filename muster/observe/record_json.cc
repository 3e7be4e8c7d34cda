#include "muster/observe/record_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "muster/observe/record_value.h"

namespace muster::observe {
namespace {

void drop_rows_after(std::vector<Record>& records, Step step) {
  std::erase_if(records, [step](const Record& record) {
    const Metrics* const row = std::get_if<Metrics>(&record);
    return row != nullptr && row->step > step;
  });
}

// For a message: whatever a damaged disk has put into a line must not reach a terminal.
std::string beginning(std::string_view line) {
  constexpr std::size_t kMost = 60;
  std::string text(line.substr(0, kMost));
  std::ranges::replace_if(
      text, [](unsigned char c) { return c < 0x20 || c > 0x7E; }, '?');
  return line.size() > kMost ? text + "…" : text;
}

}  // namespace

std::string to_json_line(const Record& record) {
  // Bytes that are not UTF-8 (a worker's last words) are replaced, not refused.
  return to_value(record).dump(-1, ' ', false, Value::error_handler_t::replace);
}

Result<Record> from_json_line(std::string_view line) {
  const Value value = Value::parse(line, nullptr, false);
  if (!value.is_object()) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("[observe/record] not a JSON object: {}", beginning(line)));
  }
  return from_value(value);
}

ReadLines read_whole_json_lines(std::string_view text) {
  ReadLines read;
  std::optional<Error> torn;  // the line before: half of one, if the run began again after it
  for (std::size_t number = 1, end = 0; (end = text.find('\n')) != text.npos; ++number) {
    auto record = from_json_line(text.substr(0, end));
    text.remove_prefix(end + 1);
    const auto* started = record ? std::get_if<RunStarted>(&*record) : nullptr;
    if (torn && !started) read.damaged.push_back(*torn);
    torn.reset();
    if (started) drop_rows_after(read.records, started->first_step);
    if (record)
      read.records.push_back(std::move(*record));
    else
      torn = with_context(std::move(record).error(), fmt::format("line {}", number));
  }
  if (torn) read.damaged.push_back(*torn);
  return read;
}

Result<std::vector<Record>> read_json_lines(std::string_view text) {
  ReadLines read = read_whole_json_lines(text);
  if (!read.damaged.empty()) return read.damaged.front();
  return std::move(read.records);
}

}  // namespace muster::observe
