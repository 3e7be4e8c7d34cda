#pragma once
// From the job's `strategy` section, and what it needs of the others, to the object that trains.

#include <cstdint>
#include <memory>

#include "muster/base/result.h"
#include "muster/job/spec.h"
#include "muster/models/model.h"
#include "muster/parallel/slice_strategy.h"

namespace muster::app {

// How its operations go: time-out, algorithm.
comm::OpOptions build_op_options(const job::CommunicationSpec& communication);

// `lanes`: of this worker, where the job does not say.
Result<std::unique_ptr<parallel::SliceStrategy>> build_strategy(
    const job::JobSpec& job, std::unique_ptr<models::Model> model, std::int32_t lanes);

}  // namespace muster::app
