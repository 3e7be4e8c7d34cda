#pragma once
// Numbers of workers by the time of day: "08:00=2, 20:00=8".

#include <string_view>
#include <vector>

#include "muster/base/result.h"

namespace muster::job {

struct DailyEntry {
  int minute = 0;  // of the day, 0 to 1439
  int workers = 1;
  friend bool operator==(const DailyEntry&, const DailyEntry&) = default;
};
using Daily = std::vector<DailyEntry>;  // by minute, none twice

// The error's message says only what is wrong. Nothing written is an empty one.
Result<Daily> parse_daily(std::string_view text);

// At that minute of the day; before the first entry the last one of the day before counts.
int workers_at(const Daily& daily, int minute);  // `daily` is not empty

}  // namespace muster::job
