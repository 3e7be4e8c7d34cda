#pragma once
// The console's lines as text. Pure.

#include <string>
#include <string_view>

#include "muster/observe/sinks/console/progress.h"

namespace muster::observe {

struct LineStyle {
  bool colour = false;
  int width = 80;  // columns; 0: as wide as need be
};

// Percent, bar, loss and time left always; the rest, most useful first, as far as `width` allows.
// Never wider than width - 3 columns, so that no terminal wraps it, nor the ^C of a Ctrl-C.
std::string live_line(const Progress& progress, const LineStyle& style);

// "step 120/1,407  epoch 0.26/3  loss 0.6131  lr 1.0e-03  2,512 samples/s  0:48 left"
std::string plain_line(const Progress& progress);

// The lines below are broken where they are wider than the terminal, but for paths, addresses and
// commands to copy.
// "eval  step 469, epoch 1: accuracy 85.21 %, loss 0.4123"
std::string evaluation_line(const Metrics& row, const LineStyle& style);
std::string checkpoint_line(const CheckpointWritten& checkpoint, const LineStyle& style);
std::string notice_line(const Notice& notice, const LineStyle& style);

// What stands at the start and the end of a run; several lines. Why it ended is told whole.
std::string start_lines(const RunStarted& started, const LineStyle& style);
std::string result_line(std::string_view name, std::string_view value);  // one of the end's
std::string end_lines(const RunEnded& ended, const RunStarted& started, const LineStyle& style);

// Columns that `text` takes: escape sequences none.
int columns(std::string_view text) noexcept;

}  // namespace muster::observe
