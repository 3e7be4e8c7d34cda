#pragma once
// How long the blocks of a model take where each follows the one before, as in a lane's passes,
// with as many passes at once as there will be: what others touch leaves the cache meanwhile,
// memory is shared with them, and gradients are added to those of earlier passes. A block that runs
// by itself again and again is up to a third faster.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/parallel/examples.h"
#include "muster/plan/model_profile.h"

namespace muster::app {

// Passes of lanes of several workers; these have weights of their own.
struct AtOnce {
  std::int32_t passes = 1;
  std::int32_t workers = 1;  // at most as many
};

// What the next block gets, and begins its own backward with.
at::Tensor handed_on(const at::Tensor& output);
models::PassContext pass_to_measure(const job::JobSpec& job, std::vector<at::Tensor>& statistics);

// Bytes that so many passes at once take besides the model, whose blocks were measured one by one.
std::uint64_t bytes_to_time(const models::Model& model, const std::vector<plan::BlockPass>& blocks,
                            const AtOnce& at_once);

// Sets `forward` and `backward` of each of the blocks; the loss is part of the last one. `model` is
// initialised; its gradients are nobody else's until it is gone. Dealt experts have one lane: of
// their model one pass runs at once.
Status time_passes(models::Model& model, const parallel::Examples& examples,
                   const job::JobSpec& job, const AtOnce& at_once,
                   std::vector<plan::BlockPass>& blocks);

}  // namespace muster::app
