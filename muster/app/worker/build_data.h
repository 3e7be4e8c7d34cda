#pragma once
// From the job's `data` section to pipelines. Pure composition; thread-safe.

#include <cstdint>

#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/transform.h"
#include "muster/job/spec.h"

namespace muster::app {

struct DataPipelines {
  data::Pipeline training;
  data::Pipeline evaluation;
};

Result<DataPipelines> build_data(Files& files, const job::JobSpec& job);

}  // namespace muster::app
