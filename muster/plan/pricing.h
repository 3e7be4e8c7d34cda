#pragma once
// Steps of an estimate that do not depend on how the model is spread. For the files of this layer.
// Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "muster/base/result.h"
#include "muster/plan/estimate.h"
#include "muster/plan/exchange.h"
#include "muster/plan/model_profile.h"
#include "muster/plan/part.h"
#include "muster/plan/way.h"

namespace muster::plan {

// What a rank of a way has of the model, and the passes that it runs.
struct RankModel {
  const ModelProfile& whole;
  const ModelProfile& here;  // `whole`, with the blocks that cutting tensors leaves
  const PassProfile& pass;
  const CutProfile* cut = nullptr;  // where ranks compute slices together
};

Error not_priced(std::string why);  // kInvalid

Duration scaled(Duration time, double by);

// Where more threads compute than there are cores, each gets its share of them.
double stretch(double threads, const Hardware& hardware);

// Of so many of the model's elements, on so many lanes.
Duration update_of(const ModelProfile& profile, std::int64_t trained, std::int32_t lanes);

// Moves the optimizer's state to the disk where it lies there: two windows of it a lane, each one
// parameter's at least, are in memory while it is updated.
void offload(const Way& way, const Part& part, std::int32_t lanes, MemoryUse& memory);

// What of the reduction is left when backward has ended: buckets are reduced as the last pass fills
// them, but for the last bucket.
Duration exposed(const ExchangeCost& exchange, Duration last_backward);

// Of a part's gradients: of what is no expert's, and of experts where these are dealt out.
std::vector<ExchangeCost> exchanges_of(const Part& part, const Way& way, const Hardware& hardware);

layout::BlockRange all_blocks(const ModelProfile& profile);

// Of the first worker's pass of all blocks, by which it counts operations: Part::counting().
BriefMemory counting_whole(const RankModel& model, const Way& way);

// Memory of passes that kept so much at their peak, on so many lanes. What of it is no more there
// when a save begins, unless it is one of those that stay beside all steps: `given_back`.
struct PassMemory {
  std::uint64_t activations = 0;
  std::uint64_t given_back = 0;
};
PassMemory pass_memory(std::uint64_t kept, BriefMemory in_hand, BriefMemory counting);

}  // namespace muster::plan
