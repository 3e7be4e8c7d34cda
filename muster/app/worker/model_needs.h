#pragma once
// Of a model for which there is not enough memory: that there is not, and what it would need.

#include <vector>

#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/source.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"

namespace muster::app {

// Before its memory is touched: kUnavailable where its weights are larger than the host's memory.
// Who fills more than there is, is killed without a word. Stages of a pipeline fill their blocks
// only.
Status check_weights(Files& files, const job::JobSpec& job, const models::Model& model);

// Where `why` is that memory has run out, with the whole model's parameters and the bytes of its
// weights, gradients and optimizer; else as it is. Allocates none of them.
Error with_needs(Error why, const job::JobSpec& job, const std::vector<data::FieldSpec>& fields,
                 const ComponentsPtr& own);

}  // namespace muster::app
