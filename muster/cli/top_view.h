#pragma once
// What `muster top` shows. Pure.

#include <limits>
#include <string>
#include <vector>

#include "muster/app/debug/live_report.h"
#include "muster/observe/run_list.h"

namespace muster::cli {

struct TopView {
  observe::RunInfo run;
  std::vector<app::LiveWorker> workers;  // none: it does not train, or has just begun
};

struct TopSize {
  int width = 80;                                // columns
  int height = std::numeric_limits<int>::max();  // lines
};

// Fits. Of workers whom there is no room for it is said how many they are.
std::string top_text(const TopView& view, const TopSize& size);

// Who holds the others up, a line each: as the workers measured it, or, where they did not yet, who
// computes while the others wait. Empty: nobody.
std::vector<std::string> slow_workers(const TopView& view);

}  // namespace muster::cli
