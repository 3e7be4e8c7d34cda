#include "muster/cli/chosen_job.h"

#include "muster/cli/auto_engine.h"
#include "muster/cli/auto_strategy.h"

namespace muster::cli {

Result<ChosenJob> choose_values(PlanRequest request, job::Job job, const cluster::StartedBy* by,
                                const std::optional<Path>& resumed, Context& context) {
  MUSTER_ASSIGN(ChosenJob engine, choose_engine(request, std::move(job), by, context));
  MUSTER_ASSIGN(ChosenJob all, choose_strategy(request, std::move(engine.job), resumed, context));
  all.why.insert(all.why.begin(), engine.why.begin(), engine.why.end());
  return all;
}

}  // namespace muster::cli
