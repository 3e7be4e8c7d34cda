#pragma once
// strategy.type auto: the planner chooses before the workers are started.

#include <optional>

#include "muster/cli/chosen_job.h"

namespace muster::cli {

// `job`: what `request` loads to. With `resumed`, a run's folder, its choice is kept, as long as
// the job allows it. kUnavailable where no way fits: the reason of each.
Result<ChosenJob> choose_strategy(const PlanRequest& request, job::Job job,
                                  const std::optional<Path>& resumed, Context& context);

}  // namespace muster::cli
