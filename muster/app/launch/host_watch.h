#pragma once
// From the job's `preemption` section to what the launcher asks about its own host.

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/launcher.h"
#include "muster/job/spec.h"

namespace muster::app {

// None where the job names nobody to ask. `processes` and `files` outlive what it begins.
cluster::HostWatch create_host_watch(const job::PreemptionSpec& preemption, Processes& processes,
                                     Files& files, const Logger& log);

}  // namespace muster::app
