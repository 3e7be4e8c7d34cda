#pragma once
// Which runs there are, and what became of each.

#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/observe/run_folder.h"
#include "muster/observe/run_outline.h"

namespace muster::observe {

// What a folder's place says of its run: runs/<job>/<UTC stamp>-<id>.
struct RunName {
  std::string job;
  std::string leaf;   // "20261124T221836Z-3f09a1"
  std::string id;     // "3f09a1"
  std::string began;  // "2026-11-24 22:18", UTC; empty: the folder does not say
};
RunName name_of(const Path& root);

bool is_run(Files& files, const Path& folder);  // something was recorded in it, or was to be

// The runs in `runs`, those of `muster compare` too; the newest first. None where there is no such
// folder. Cheap: none is read.
std::vector<RunFolder> find_runs(Files& files, const Path& runs);

struct RunInfo {
  Path root;
  RunName name;
  RunState state = RunState::kFailed;
  std::string reason;  // why it did not finish, or finished early; empty: as planned
  RunOutline outline;
};
RunInfo look_at(Files& files, const RunFolder& folder);

}  // namespace muster::observe
