#pragma once
// A unit (a slice of the global batch, in fast mode a lane's slices) as the passes that compute it:
// its micro-batches. Pure; the same for every strategy, so the bits are.

#include <cstdint>
#include <vector>

#include "muster/base/ids.h"
#include "muster/parallel/examples.h"
#include "muster/parallel/lane.h"
#include "muster/parallel/strategy.h"

namespace muster::parallel {

struct UnitPass {
  Examples examples;
  LanePass pass;
};

struct PassOptions {
  std::int64_t micro_batch_size = 0;  // most samples of a pass; 0: no limit
  std::uint64_t seed = 0;
};

// `first_slice` names the unit's random numbers. Of a unit without samples: none.
std::vector<UnitPass> passes_of(const Examples& examples, std::int32_t unit, SliceIndex first_slice,
                                const StepInput& input, const PassOptions& options);

}  // namespace muster::parallel
