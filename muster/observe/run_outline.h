#pragma once
// What a run has come to, from its metrics.jsonl, without reading every line of it into records:
// a list of runs looks at many. Pure.

#include <optional>
#include <string_view>
#include <vector>

#include "muster/observe/event.h"

namespace muster::observe {

struct RunOutline {
  std::optional<RunStarted> started;  // the last start
  std::optional<Metrics> last_step;   // a training step, the last told
  // Seconds of a step of late: the median of the last few. Only of a start without an end.
  std::optional<double> step_time;
  std::vector<Metrics> evaluations;  // in order, without those of steps that were taken again
  std::optional<RunEnded> ended;     // how the last start ended; none: nobody told
  std::vector<std::string> slow;     // who is slower than the others now, and why, as was told
  Duration took{0};                  // of all starts together; of one without an end, its steps
};

// Lines that are damaged, and a last one without an end, are passed over.
RunOutline read_outline(std::string_view metrics_jsonl);

// The evaluation that counts: of the highest accuracy where accuracy was measured, else of the
// lowest loss.
std::optional<Metric> best_evaluation(const RunOutline& outline);

// Where it is: of the last step, or of the end.
Step last_step(const RunOutline& outline);

}  // namespace muster::observe
