#pragma once
// Whether the system kills processes for lack of memory: it does so by SIGKILL, which says nothing
// of the reason.

#include <cstdint>
#include <string>

#include "muster/base/files.h"
#include "muster/base/process.h"

namespace muster::cluster {

// How many it has killed on this host since it started, for lack of the host's memory or of a
// control group's (oom_kill in /proc/vmstat); 0 where it does not say.
std::uint64_t memory_kills(Files& files);

// "killed by SIGKILL", and that it may have been for that, where it has killed `kills` meanwhile.
std::string describe(const ProcessEnd& end, std::uint64_t kills);

}  // namespace muster::cluster
