#pragma once
// What the blocks of a model cost, found by running them. Each holds one block at a time of a model
// that is not initialised, and takes the samples of the batch's first slice, at most a micro-batch.

#include <cstdint>
#include <vector>

#include "muster/app/worker/counted_ranks.h"
#include "muster/app/worker/pass_times.h"
#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/data/batch.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

// How long forward and backward of each block take.
Result<std::vector<Duration>> measure_blocks(const models::Model& whole,
                                             const data::StepBatch& batch, const job::JobSpec& job);

// Floating-point operations of a sample, forward and backward (models::FlopCounter). Of the model
// itself, whose values are of no account; `batch` has a sample.
Result<double> count_flops(models::Model& whole, const data::StepBatch& batch,
                           const job::JobSpec& job);

// What one pass keeps from its forward to its backward.
struct Activations {
  std::int64_t samples = 0;  // of the pass
  std::int64_t bytes = 0;    // of all blocks, without the pass's own input
};
Result<Activations> measure_activations(const models::Model& whole, const data::StepBatch& batch,
                                        const job::JobSpec& job);

// The same of the first rank's part of a model whose tensors or sequences are spread over ranks,
// and that is initialised.
Result<Activations> measure_own_activations(models::Model& part, const data::StepBatch& batch,
                                            const job::JobSpec& job);

struct PassRoom {
  AtOnce at_once = {};
  std::uint64_t bytes = 0;  // that they may take
};

// Both by block, forward and backward apart; the loss is part of the last block. Times are those of
// whole passes (pass_times.h) where there is room for as many.
Result<std::vector<plan::BlockPass>> measure_passes(const models::Model& whole,
                                                    const data::StepBatch& batch,
                                                    const job::JobSpec& job, const PassRoom& room);

// The same of the first rank's part of a model that was spread over ranks, which write into `told`,
// and initialised; and what it would tell the others.
Result<plan::PassProfile> measure_cut_passes(models::Model& part, RankNotes& told,
                                             const data::StepBatch& batch, const job::JobSpec& job,
                                             const PassRoom& room);

}  // namespace muster::app
