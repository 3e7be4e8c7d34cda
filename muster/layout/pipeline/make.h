#pragma once
// The pipeline schedules of the field, made from a few numbers. The same options give the same
// schedule on every worker. Pure, thread-safe.

#include <cstdint>
#include <optional>

#include "muster/layout/pipeline/schedule.h"
#include "muster/layout/pipeline/times.h"

namespace muster::layout {

struct PipelineOptions {
  PipelineKind kind = PipelineKind::k1F1B;
  std::int32_t stages = 1;
  std::int32_t micro_batches = 1;  // any number, also fewer than stages
  // None: 2 for interleaved and zb_v, 1 for the others, which allow no other.
  std::optional<std::int32_t> chunks_per_stage = {};
  // zb_v: how many activations of a chunk a stage may hold, at least 2. None: as many bytes as
  // 1F1B's first stage, 2 · stages (a chunk is half a stage's).
  std::optional<std::int32_t> memory_limit = {};
  // zb_v goes by them; its chunks are those of v_placement. None: all parts take equally long, and
  // links no time.
  std::optional<PipelineCosts> costs = {};
};

// kInvalid where the numbers make no schedule, or one is not for this kind.
Result<PipelineSchedule> make_schedule(const PipelineOptions& options);

// How many chunks the model is cut into with these options.
Result<std::int32_t> chunk_count(const PipelineOptions& options);

}  // namespace muster::layout
