#pragma once
// What a job leaves to muster, chosen before its workers are started.

#include <optional>
#include <string>
#include <vector>

#include "muster/cli/plan_job.h"
#include "muster/cluster/started_by.h"

namespace muster::cli {

struct ChosenJob {
  job::Job job;
  std::vector<std::string> why = {};  // lines for the log; none: the job said it itself
};

// communication.engine auto and strategy.type auto become values, whose origin names the `auto`.
// `job`: what `request` loads to. `by`: who has started this process and others for the job; null:
// nobody. `resumed`: the folder of the run that goes on. Errors: of choose_strategy().
Result<ChosenJob> choose_values(PlanRequest request, job::Job job, const cluster::StartedBy* by,
                                const std::optional<Path>& resumed, Context& context);

}  // namespace muster::cli
