#pragma once
// What each of several runs has of something, a line each: fields of the job, final metrics. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "muster/observe/comparison.h"

namespace muster::observe {

struct SideBySide {
  std::string what;                 // "optimizer.type", "eval/loss"
  std::vector<std::string> values;  // of each run; empty: it has none
};

// Of a run that told of no end, its last step's and its last evaluation's.
std::vector<SideBySide> final_metrics(const std::vector<ComparedRun>& runs);

// `names` of the runs; `heading` of what the lines are. Empty where there is no line. `width`:
// columns of the terminal, as aligned() has it.
std::string side_by_side_text(std::string_view heading, const std::vector<std::string>& names,
                              const std::vector<SideBySide>& lines, std::size_t width = 0);
std::string side_by_side_card(std::string_view title, const std::vector<std::string>& names,
                              const std::vector<SideBySide>& lines);

}  // namespace muster::observe
