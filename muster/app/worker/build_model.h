#pragma once
// From the job's `model`, `optimizer` and `schedule` sections to their objects.

#include <memory>
#include <vector>

#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/base/tensor_slice.h"
#include "muster/data/source.h"
#include "muster/job/spec.h"
#include "muster/models/create.h"
#include "muster/models/model.h"
#include "muster/optim/lr_schedule.h"
#include "muster/optim/optimizer.h"
#include "muster/train/cadence.h"

namespace muster::app {

// `fields`: what the data yields; the model's input shape. Not initialised yet.
Result<std::unique_ptr<models::Model>> build_model(const job::JobSpec& job,
                                                   const std::vector<data::FieldSpec>& fields,
                                                   const ComponentsPtr& own);

models::Compute compute_of(const job::TrainingSpec& training);

// Parameters and statistics from `state`, which has all of them.
void fill(models::Model& model, const std::vector<TensorSlice>& state);

// `scratch`: the folder in which its state lies where the job offloads it; empty: it stays in
// memory all the same.
Result<std::unique_ptr<optim::Optimizer>> build_optimizer(
    const job::JobSpec& job, std::vector<optim::OptimizedParameter> parameters,
    const Path& scratch = {});

// Steps and epochs of the whole training.
train::TrainingLength training_length(const job::TrainingSpec& training, std::int64_t epoch_size);

// In samples; the peak scaled for the global batch.
Result<optim::ScheduleSpec> build_schedule(const job::JobSpec& job,
                                           const train::TrainingLength& length,
                                           std::int64_t epoch_size);

}  // namespace muster::app
