#pragma once
// From the job's `autoscaling` section to the rule that the launcher asks.

#include "muster/base/files.h"
#include "muster/base/log.h"
#include "muster/base/process.h"
#include "muster/cluster/autoscale.h"
#include "muster/job/spec.h"

namespace muster::app {

// None where the job's number of workers is fixed. The rule keeps what it asks alive; the others
// outlive it.
cluster::ScaleRule create_scale_rule(const job::AutoscalingSpec& scaling, Clock& clock,
                                     Processes& processes, Files& files, const Logger& log);

}  // namespace muster::app
