#pragma once
// For the planner: what is left of a model on one worker where strategies cut it, from the code
// that cuts it.

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "muster/app/worker/block_costs.h"
#include "muster/base/result.h"
#include "muster/data/batch.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

// What a block has, without the optimizer's state; of a model that was split, what is here.
plan::BlockProfile look_at(const models::Model& model, std::size_t index);

// A pass that nobody has run: of its backward the largest gradient, and times that weigh blocks by
// their parameters.
plan::PassProfile counted_pass(const std::vector<plan::BlockProfile>& blocks, std::int64_t samples);

// ZeRO among the job's workers.
plan::ShardProfile shards_of(const models::Model& model, const job::JobSpec& job);

// Tensors in as many parts as divide the job's workers, with and without cut sequences, sequences
// shared by as many, and experts dealt to as many, also in parts: those ways in which such a model
// can be cut.
// `profile`: of the whole model. `build`: makes it. Where `batch` is null their passes are counted;
// else those parts are left out whose weights take more than there is room for.
using BuildModel = std::function<Result<std::unique_ptr<models::Model>>()>;
struct CutPasses {
  const data::StepBatch* batch = nullptr;
  PassRoom room = {};
};
Result<std::vector<plan::CutProfile>> cuts_of(const plan::ModelProfile& profile,
                                              const BuildModel& build, const CutPasses& passes,
                                              const job::JobSpec& job);

}  // namespace muster::app
