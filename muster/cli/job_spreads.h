#pragma once
// Over the workers of a job its training can be spread so: by each strategy, and by products of
// them as a mesh. Pure.

#include <string>
#include <utility>
#include <vector>

#include "muster/job/spec.h"

namespace muster::cli {

struct JobSpread {
  std::string name;                                           // "1f1b, 2 stages"
  std::vector<std::pair<std::string, std::string>> values{};  // fields and what they become
  bool together = false;  // workers compute parts of each slice, which are then added up
  bool meets = false;     // workers meet in every pass: priced with the job's passes only
  bool product = false;   // of strategies
};

// What a job does not allow is among them; its validation knows that.
std::vector<JobSpread> spreads_of(const job::JobSpec& job);

}  // namespace muster::cli
