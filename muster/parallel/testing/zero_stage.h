#pragma once
// What the stages of ZeRO are as options of strategies. For tests.

#include "muster/parallel/slice_gradients.h"

namespace muster::parallel {

inline SliceOptions in_stage(int stage, SliceOptions options) {
  options.shard_gradients = stage >= 2;
  options.shard_weights = stage >= 3;
  return options;
}

}  // namespace muster::parallel
