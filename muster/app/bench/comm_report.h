#pragma once
// What a benchmark of communication has found, for people and for programs. Pure.

#include <string>
#include <vector>

#include "muster/app/bench/comm_bench.h"

namespace muster::app {

struct CommReport {
  CommSetting setting;
  std::vector<CommTiming> timings;
};

// Lines as they come: what is measured and the head of the table, then a row each. None has more
// than 80 columns.
std::string table_head(const CommSetting& setting, const CommBench& bench);
std::string table_row(const CommTiming& timing, const CommSetting& setting);

std::string to_json(const CommReport& report, const CommBench& bench);  // one line
// Bus bandwidth by size, a line for each operation, and what the limit would give.
std::string to_svg(const CommReport& report, const CommBench& bench);

}  // namespace muster::app
