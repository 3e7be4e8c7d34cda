#pragma once
// model.weights: a training begins with what another one has learnt.

#include <string>
#include <vector>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/parallel/strategy.h"

namespace muster::app {

// What a checkpoint of the model holds, in no order: parameters, frozen ones, statistics.
std::vector<std::string> tensor_names(const models::Model& model);

// Fills what this rank holds of the model, and of its average, from model.weights; nothing where
// the job names none. Adapters stay as they are where the weights have none. kInvalid where the
// weights are those of another model: they lack a tensor of `whole`, all of this model's, or have
// others.
Status start_from_weights(Files& files, const job::ModelSpec& model,
                          const std::vector<std::string>& whole, parallel::Strategy& strategy);

}  // namespace muster::app
