#pragma once
// Where nothing fits in memory: what would, of that which can be priced without measuring again.

#include <functional>

#include "muster/cli/plan_job.h"

namespace muster::cli {

// The plan of the same job on so many workers; none: the job does not allow it.
using PlanOn = std::function<std::optional<JobPlan>(std::int32_t workers)>;

// `plan`: has no best way. Looks at its own number of workers first, then at others, the nearest
// first; takes fewer lanes, which leave the bits as they are, before smaller micro-batches, which
// do not. Where nothing fits: the way that needs least. None: there is no way at all.
std::optional<NearestWay> nearest_way(const JobPlan& plan, const PlanOn& on);

}  // namespace muster::cli
