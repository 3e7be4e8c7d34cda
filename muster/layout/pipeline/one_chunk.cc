// Schedules with one chunk a stage: GPipe, 1F1B, ZB-H1.

#include <algorithm>

#include "muster/layout/pipeline/builders.h"

namespace muster::layout {
namespace {

PipelineSchedule empty_schedule(PipelineKind kind, PipelineSize size) {
  return {kind, size.micro_batches, round_robin_placement(size.stages, 1), {}};
}

// Forwards before the first backward of stage s, but for the one right before it.
std::int32_t warmup(PipelineSize size, std::int32_t stage) {
  return std::min(size.micro_batches, size.stages - 1 - stage);
}

}  // namespace

PipelineSchedule make_gpipe(PipelineSize size) {
  PipelineSchedule schedule = empty_schedule(PipelineKind::kGPipe, size);
  for (std::int32_t stage = 0; stage < size.stages; ++stage) {
    StageActions actions;
    for (std::int32_t i = 0; i < size.micro_batches; ++i) actions.forward(i, Chunk{stage});
    for (std::int32_t i = 0; i < size.micro_batches; ++i) actions.backward(i, Chunk{stage});
    schedule.actions.push_back(actions.take());
  }
  return schedule;
}

PipelineSchedule make_1f1b(PipelineSize size) {
  PipelineSchedule schedule = empty_schedule(PipelineKind::k1F1B, size);
  for (std::int32_t stage = 0; stage < size.stages; ++stage) {
    StageActions actions;
    const std::int32_t ahead = warmup(size, stage);
    for (std::int32_t i = 0; i < ahead; ++i) actions.forward(i, Chunk{stage});
    for (std::int32_t i = 0; i < size.micro_batches; ++i) {
      if (i + ahead < size.micro_batches) actions.forward(i + ahead, Chunk{stage});
      actions.backward(i, Chunk{stage});
    }
    schedule.actions.push_back(actions.take());
  }
  return schedule;
}

PipelineSchedule make_zb_h1(PipelineSize size) {
  PipelineSchedule schedule = empty_schedule(PipelineKind::kZbH1, size);
  for (std::int32_t stage = 0; stage < size.stages; ++stage) {
    StageActions actions;
    const std::int32_t ahead = warmup(size, stage);
    for (std::int32_t i = 0; i < ahead; ++i) actions.forward(i, Chunk{stage});
    for (std::int32_t i = 0; i < size.micro_batches + stage; ++i) {
      if (i + ahead < size.micro_batches) actions.forward(i + ahead, Chunk{stage});
      if (i < size.micro_batches) actions.add(ActionKind::kBackwardInput, i, Chunk{stage});
      if (i >= stage) actions.add(ActionKind::kBackwardWeight, i - stage, Chunk{stage});
    }
    schedule.actions.push_back(actions.take());
  }
  return schedule;
}

}  // namespace muster::layout
