#pragma once
// Plays a pipeline schedule with given costs and says what came of it: how long a step takes, how
// much of it the stages stand idle, what they hold and send. Pure, thread-safe.

#include <cstdint>
#include <vector>

#include "muster/layout/pipeline/schedule.h"
#include "muster/layout/pipeline/times.h"

namespace muster::plan {

struct ChunkMemory {                // in bytes
  std::uint64_t activations = 0;    // of a micro-batch, from its forward to its backward
  std::uint64_t weight_inputs = 0;  // of these, what only the weights' part still needs
  std::uint64_t state = 0;          // weights, gradients, optimizer: all the time
};

// A model of `chunks` equal parts that needs so much as a whole.
std::vector<ChunkMemory> equal_memory(const ChunkMemory& model, std::int32_t chunks);

struct MemoryPoint {  // from then on
  Duration at{};
  std::uint64_t bytes = 0;
};

struct StageSummary {
  Duration busy{};
  Duration begin{};  // of its first action
  Duration end{};    // of its last
  std::int32_t peak_activations = 0;
  std::vector<MemoryPoint> memory;
  std::uint64_t peak_bytes = 0;
  std::uint64_t sent_bytes = 0;
  std::int32_t sent_messages = 0;
};

struct PipelineSimulation {
  layout::PipelineSchedule schedule;
  layout::ActionTimes times;
  std::vector<StageSummary> stages;
  Duration makespan{};  // of one step, from the first action to the last
  Duration period{};    // from step to step where stages do not wait for each other in between

  // The share of the stages' time in which they stand idle: of one step by itself, and of steps
  // that follow each other without a barrier. 0 for nothing to do.
  double bubble() const noexcept { return idle_share(makespan); }
  double bubble_without_barrier() const noexcept { return idle_share(period); }
  std::uint64_t peak_bytes() const noexcept;
  std::int32_t peak_activations() const noexcept;
  std::uint64_t sent_bytes() const noexcept;

 private:
  double idle_share(Duration length) const noexcept;
};

// `memory`: by chunk. kInvalid where the schedule is none (layout/pipeline/check.h).
Result<PipelineSimulation> simulate(layout::PipelineSchedule schedule,
                                    const layout::PipelineCosts& costs,
                                    const std::vector<ChunkMemory>& memory);

}  // namespace muster::plan
