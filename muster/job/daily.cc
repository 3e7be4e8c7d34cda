#include "muster/job/daily.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/number.h"
#include "muster/base/trimmed.h"

namespace muster::job {
namespace {

bool read_number(std::string_view text, int most, int& into) {
  into = number_from<int>(text).value_or(-1);
  return into >= 0 && into <= most;
}

Result<DailyEntry> parse_entry(std::string_view text) {
  const auto colon = text.find(':');
  const auto equals = text.find('=');
  int hour = 0;
  int minute = 0;
  DailyEntry entry;
  if (colon != text.npos && equals != text.npos && colon < equals &&
      read_number(text.substr(0, colon), 23, hour) &&
      read_number(text.substr(colon + 1, equals - colon - 1), 59, minute) &&
      read_number(trimmed(text.substr(equals + 1), " "), 65536, entry.workers) &&
      entry.workers > 0) {
    entry.minute = 60 * hour + minute;
    return entry;
  }
  return fail(ErrorCode::kInvalid,
              fmt::format("\"{}\" is no entry; expected a time and a number of workers, for "
                          "example 20:00=8",
                          text));
}

}  // namespace

Result<Daily> parse_daily(std::string_view text) {
  Daily daily;
  while (!text.empty()) {
    const auto comma = text.find(',');
    MUSTER_ASSIGN(const DailyEntry entry, parse_entry(trimmed(text.substr(0, comma), " ")));
    daily.push_back(entry);
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return fail(ErrorCode::kInvalid, "nothing follows the last comma");
  }
  std::ranges::sort(daily, {}, &DailyEntry::minute);
  const auto twice = std::ranges::adjacent_find(daily, {}, &DailyEntry::minute);
  if (twice != daily.end())
    return fail(ErrorCode::kInvalid, fmt::format("{:02}:{:02} stands there twice",
                                                 twice->minute / 60, twice->minute % 60));
  return daily;
}

int workers_at(const Daily& daily, int minute) {
  const auto later = std::ranges::upper_bound(daily, minute, {}, &DailyEntry::minute);
  return later == daily.begin() ? daily.back().workers : std::prev(later)->workers;
}

}  // namespace muster::job
