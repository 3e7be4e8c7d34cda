#pragma once
// What a job would train: model, memory, how the batch is dealt, without training it.

#include <string>

#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/job/spec.h"

namespace muster::app {

// Several lines for a person. Opens the data, so missing data is told here as well.
Result<std::string> describe_training(Files& files, const job::JobSpec& job,
                                      const ComponentsPtr& own);

}  // namespace muster::app
