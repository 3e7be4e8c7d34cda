// What a strategy asks of the rest of the job.
#include <fmt/format.h>

#include "muster/job/draft.h"

namespace muster::job {
namespace {

void refuse(Draft& draft, std::string_view field) {
  draft.complain(
      {field, "strategy.type"},
      fmt::format("strategy.type sharded keeps each part of the optimizer's state on one "
                  "worker, so that none may come or go; {} is {}",
                  field, draft.shown(field)),
      "leave it out: after a death `muster train JOB --resume` goes on from the last "
      "checkpoint, with any number of workers; or use strategy.type: data");
}

// Sets what the membership has to be, unless somebody wants another one.
void fix(Draft& draft, std::string_view field, std::int64_t& value, std::int64_t needed) {
  if (value == needed) return;
  if (draft.given(field)) return refuse(draft, field);
  value = needed;
  draft.derive(field, "for strategy.type sharded");
}

}  // namespace

void resolve_strategy(Draft& draft) {
  if (draft.spec.strategy.type != StrategyType::kSharded) return;
  WorkersSpec& workers = draft.spec.workers;
  fix(draft, "workers.standbys", workers.standbys, 0);
  fix(draft, "workers.min_workers", workers.min_workers, workers.count);
  fix(draft, "workers.max_restarts", workers.max_restarts, 0);
  if (draft.given("workers.max_workers") && workers.max_workers > workers.count)
    refuse(draft, "workers.max_workers");
  if (draft.spec.stragglers.evict_factor > 0) refuse(draft, "stragglers.evict_factor");
}

}  // namespace muster::job
