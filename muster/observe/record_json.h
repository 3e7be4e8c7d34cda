#pragma once
// Records as lines of JSON: metrics.jsonl and `--log json`. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "muster/base/result.h"
#include "muster/observe/event.h"

namespace muster::observe {

std::string to_json_line(const Record& record);  // without the line's end
Result<Record> from_json_line(std::string_view line);

// All records of a metrics.jsonl in order. A last line without an end is left out. Where a run was
// resumed, rows of steps that were taken again are replaced by the later ones.
struct ReadLines {
  std::vector<Record> records;
  std::vector<Error> damaged;  // lines that are none, in order: left out
};
ReadLines read_whole_json_lines(std::string_view text);

// The same where no line may be damaged: the first that is.
Result<std::vector<Record>> read_json_lines(std::string_view text);

}  // namespace muster::observe
