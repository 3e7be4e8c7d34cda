#pragma once
// From the job's `data` section to pipelines. Pure composition; thread-safe.

#include <cstdint>
#include <optional>

#include "muster/app/data/data_card.h"
#include "muster/app/worker/components.h"
#include "muster/base/files.h"
#include "muster/base/result.h"
#include "muster/data/batch_stream.h"
#include "muster/data/transform.h"
#include "muster/job/spec.h"

namespace muster::app {

struct DataPipelines {
  data::Pipeline training;
  data::Pipeline evaluation;
  std::uint64_t fingerprint = 0;  // of both: how many samples, and which where that is known
  std::optional<DataCard> card = {};
};

Result<DataPipelines> build_data(Files& files, const job::JobSpec& job, const Components& own);

// How the job's batches are cut; whose slices, the trainer says.
data::BatchStreamOptions stream_options(const job::JobSpec& job);

// The first slice of the first batch.
Result<data::StepBatch> first_slice(const data::Pipeline& training, const job::JobSpec& job);

}  // namespace muster::app
