#pragma once
// For the planner: what is left of a model on one worker where strategies cut it, from the code
// that cuts it.

#include <functional>
#include <memory>
#include <vector>

#include "muster/base/result.h"
#include "muster/data/batch.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

// What a block has, without the optimizer's state; of a model that was split, what is here.
plan::BlockProfile look_at(const models::Model& model, std::size_t index);

// ZeRO among the job's workers.
plan::ShardProfile shards_of(const models::Model& model, const job::JobSpec& job);

// Tensors in as many parts as divide the job's workers, with and without cut sequences, and
// sequences shared by as many: those ways in which such a model can be cut. `profile`: of the whole
// model. `build`: makes it.
using BuildModel = std::function<Result<std::unique_ptr<models::Model>>()>;
Result<std::vector<plan::CutProfile>> cuts_of(const plan::ModelProfile& profile,
                                              const BuildModel& build, const data::StepBatch& batch,
                                              const job::JobSpec& job);

}  // namespace muster::app
