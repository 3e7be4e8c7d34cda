// Interleaved 1F1B: every stage holds several chunks, so that a micro-batch passes it several times
// and the pipeline fills in shorter steps.

#include <algorithm>

#include "muster/layout/pipeline/builders.h"

namespace muster::layout {
namespace {

struct Group {  // of micro-batches that go through one chunk after the other
  std::int32_t begin;
  std::int32_t size;
};

// Sizes differ by at most one and are at least `stages`: by the time the last one has left a
// stage's first chunk, the first one has come round to its second. A smaller group at the end, as
// left over by groups of exactly `stages`, would let every stage wait once for every chunk.
std::vector<Group> groups_of(PipelineSize size) {
  const std::int32_t count = std::max(1, size.micro_batches / size.stages);
  std::vector<Group> groups;
  std::int32_t begin = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t share = size.micro_batches / count + (i < size.micro_batches % count);
    groups.push_back({begin, share});
    begin += share;
  }
  return groups;
}

struct Pass {
  std::int32_t micro_batch;
  std::int32_t turn;  // how many of the stage's chunks come before
};

std::vector<Pass> passes_of(const std::vector<Group>& groups, std::int32_t turns) {
  std::vector<Pass> passes;
  for (const Group& group : groups)
    for (std::int32_t turn = 0; turn < turns; ++turn)
      for (std::int32_t i = 0; i < group.size; ++i) passes.push_back({group.begin + i, turn});
  return passes;
}

}  // namespace

PipelineSchedule make_interleaved(PipelineSize size, std::int32_t chunks_per_stage) {
  if (chunks_per_stage == 1) {  // the same, but for what it holds
    PipelineSchedule schedule = make_1f1b(size);
    schedule.kind = PipelineKind::kInterleaved;
    return schedule;
  }
  const std::vector<Group> groups = groups_of(size);
  const std::vector<Pass> passes = passes_of(groups, chunks_per_stage);
  const auto count = static_cast<std::int32_t>(passes.size());
  PipelineSchedule schedule{PipelineKind::kInterleaved,
                            size.micro_batches,
                            round_robin_placement(size.stages, chunks_per_stage),
                            {}};
  for (std::int32_t stage = 0; stage < size.stages; ++stage) {
    // Until the first micro-batch of the largest group has gone through the last chunk and its
    // gradient has come up to this stage.
    const std::int32_t ahead = std::min(
        count, (chunks_per_stage - 1) * groups.front().size + 2 * (size.stages - 1 - stage));
    const auto chunk = [&](std::int32_t turn) { return Chunk{turn * size.stages + stage}; };
    StageActions actions;
    const auto forward = [&](std::int32_t i) {
      const Pass& pass = passes[static_cast<std::size_t>(i)];
      actions.forward(pass.micro_batch, chunk(pass.turn));
    };
    for (std::int32_t i = 0; i < ahead; ++i) forward(i);
    for (std::int32_t i = 0; i < count; ++i) {
      if (i + ahead < count) forward(i + ahead);
      const Pass& pass = passes[static_cast<std::size_t>(i)];
      actions.backward(pass.micro_batch, chunk(chunks_per_stage - 1 - pass.turn));
    }
    schedule.actions.push_back(actions.take());
  }
  return schedule;
}

}  // namespace muster::layout
