#pragma once
// Proves a pipeline schedule before anybody runs it. Pure, thread-safe.

#include <cstdint>
#include <vector>

#include "muster/layout/pipeline/schedule.h"

namespace muster::layout {

// Every chunk has a stage and every stage a chunk; each micro-batch goes forward and backward
// through each chunk exactly once, where the chunk is; stages never wait for each other for ever;
// messages of one kind between two stages are wanted in the order in which they are sent. Otherwise
// kInvalid: the stage, the action, and what is wrong with it.
Status check(const PipelineSchedule& schedule);

// By stage: the most activations that it holds at once, counting one for each micro-batch in each
// chunk between its forward and the end of its backward (of the weights' part, where split).
std::vector<std::int32_t> peak_activations(const PipelineSchedule& schedule);

}  // namespace muster::layout
