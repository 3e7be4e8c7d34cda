#pragma once
// When each action of a schedule runs, given what chunks and links cost: the model of time behind
// the planner, and behind schedules that are chosen by cost. Pure, thread-safe.

#include <cstdint>
#include <limits>
#include <vector>

#include "muster/base/clock.h"
#include "muster/layout/pipeline/schedule.h"

namespace muster::layout {

struct ChunkCost {  // for one micro-batch
  Duration forward{};
  Duration backward_input{};
  Duration backward_weight{};
  std::uint64_t output_bytes = 0;  // what the next chunk gets, and what comes back as its gradient

  Duration of(ActionKind kind) const noexcept;
};

// From one stage to another: one message at a time, in order, beside the computing.
struct LinkCost {
  Duration latency{};
  double bytes_per_second = std::numeric_limits<double>::infinity();

  Duration transfer(std::uint64_t bytes) const noexcept;  // without the latency
};

struct PipelineCosts {
  std::vector<ChunkCost> chunks = {};  // by chunk
  LinkCost link = {};
};

// A model of `chunks` equal parts that takes so long as a whole.
PipelineCosts equal_costs(const ChunkCost& model, std::int32_t chunks);

struct ActionTime {
  Duration begin{};
  Duration end{};
  friend bool operator==(const ActionTime&, const ActionTime&) = default;
};
using ActionTimes = std::vector<std::vector<ActionTime>>;  // like PipelineSchedule::actions

// Each action begins as soon as the one before it on its stage has ended and what it needs is
// there. kInvalid where stages wait for each other for ever: says who waits for what.
Result<ActionTimes> play(const PipelineSchedule& schedule, const PipelineCosts& costs);

// From the begin of the first action to the end of the last.
Duration makespan(const ActionTimes& times) noexcept;
// From one step's begin to the next one's where stages need not wait for each other in between
// (optimizer first, validation after): the longest time between a stage's first and last action.
Duration step_period(const ActionTimes& times) noexcept;

}  // namespace muster::layout
