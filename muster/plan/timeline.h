#pragma once
// Pictures of a simulated pipeline: which stage computes what at which time, as text for a terminal
// and as SVG. Pure, thread-safe.

#include <span>
#include <string>

#include "muster/plan/simulate.h"

namespace muster::plan {

struct TextStyle {
  int width = 80;       // columns; lines are no longer, but for a minimum of 40
  bool colour = false;  // with escape sequences; they count nothing
};

// A line a stage: F0 is the forward of micro-batch 0, B its backward (for the input, where split),
// W that for the weights; a, b, … the stage's chunk where it has several; a dot is idle time. What
// has no room is left away: first the chunk, then the number; then a small letter is a later chunk.
// Ends with a scale.
std::string timeline_text(const PipelineSimulation& simulation, const TextStyle& style);

// One panel for each, below each other and on one scale of time; below each stage what it holds, on
// one scale of bytes. A whole document that needs no other file and follows the reader's dark mode.
std::string timeline_svg(std::span<const PipelineSimulation> simulations);

// Four digits: "25.5 ms", "0 s".
std::string time_text(Duration duration);

// "zb_v, 4 stages of 2 chunks, 8 micro-batches"
std::string title_of(const PipelineSimulation& simulation);

}  // namespace muster::plan
