#pragma once
// From a job and its data to a finished training.

#include "muster/app/worker/build_data.h"
#include "muster/app/worker/session.h"
#include "muster/app/worker/worker.h"
#include "muster/train/trainer.h"

namespace muster::app {

// With options.join the session is joined here, once everything else is ready.
Result<train::Outcome> run_training(Session& session, const job::JobSpec& job,
                                    DataPipelines pipelines, const WorkerOptions& options);

}  // namespace muster::app
