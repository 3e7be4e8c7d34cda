#pragma once
// "What would a pipeline of so many stages take?" – asked in the numbers that people have, answered
// by simulation. Pure, thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "muster/layout/partition.h"
#include "muster/layout/pipeline/make.h"
#include "muster/plan/simulate.h"

namespace muster::plan {

struct PipelineQuestion {
  std::int32_t stages = 4;
  std::int32_t micro_batches = 8;
  std::optional<std::int32_t> chunks_per_stage = {};  // as PipelineOptions
  std::optional<std::int32_t> memory_limit = {};
  // Of the average stage, all its chunks together: the time and the memory of one micro-batch.
  // output_bytes: what passes between any two blocks.
  layout::ChunkCost stage = {};
  ChunkMemory stage_memory = {};
  layout::LinkCost link = {};
  // What each block of the model costs, in any unit; time and memory are shared out in proportion.
  // Empty: all chunks are equal.
  std::vector<double> blocks = {};
  std::vector<std::int32_t> block_counts = {};  // of each chunk, by hand; empty: by cost
};

struct PipelineAnswer {
  PipelineSimulation simulation;
  layout::Partition partition;  // empty where no blocks were given
};

// chunks_per_stage is for interleaved and memory_limit for zb_v; the others pass them over.
// kInvalid where the numbers make no schedule or no partition.
Result<PipelineAnswer> answer(const PipelineQuestion& question, layout::PipelineKind kind);

// How many chunks the model has with that kind.
Result<std::int32_t> chunk_count(const PipelineQuestion& question, layout::PipelineKind kind);

}  // namespace muster::plan
