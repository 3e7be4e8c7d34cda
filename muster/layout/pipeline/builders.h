#pragma once
// One function for each kind of schedule; make.h is the way in. The numbers are checked already.

#include <cstdint>
#include <vector>

#include "muster/base/ids.h"
#include "muster/layout/pipeline/make.h"

namespace muster::layout {

struct PipelineSize {
  std::int32_t stages;
  std::int32_t micro_batches;
};

// GPipe. All micro-batches are held at once; bubble (p-1)/(m+p-1).
PipelineSchedule make_gpipe(PipelineSize size);
// Stage s begins with p-1-s forwards, so that it holds at most p-s micro-batches; GPipe's bubble.
PipelineSchedule make_1f1b(PipelineSize size);
// Micro-batches go through a stage's chunks in groups of at least p (fewer only where there are not
// so many): bubble (p-1)/(v·m+p-1). Megatron-LM's order where p divides m.
PipelineSchedule make_interleaved(PipelineSize size, std::int32_t chunks_per_stage);
// 1F1B with the backward split; stage s computes the weights' part s micro-batches later, so that
// every stage holds p of them and the gaps at the end are filled: bubble (p-1)(F+B-W).
PipelineSchedule make_zb_h1(PipelineSize size);
PipelineSchedule make_zb_v(PipelineSize size, std::int32_t memory_limit,
                           const PipelineCosts& costs);

// Writes down one stage's actions.
class StageActions {
 public:
  void add(ActionKind kind, std::int32_t micro_batch, Chunk chunk) {
    actions_.push_back({kind, MicroBatch{micro_batch}, chunk});
  }
  void forward(std::int32_t micro_batch, Chunk chunk) {
    add(ActionKind::kForward, micro_batch, chunk);
  }
  void backward(std::int32_t micro_batch, Chunk chunk) {
    add(ActionKind::kBackward, micro_batch, chunk);
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  std::vector<Action> actions_;
};

}  // namespace muster::layout
