#pragma once
// From a job and its data to a finished training.

#include "muster/app/worker/build_data.h"
#include "muster/app/worker/session.h"
#include "muster/train/trainer.h"

namespace muster::app {

Result<train::Outcome> run_training(Session& session, const job::JobSpec& job,
                                    DataPipelines pipelines, bool resume);

}  // namespace muster::app
