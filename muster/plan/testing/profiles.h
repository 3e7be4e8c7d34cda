#pragma once
// Hand-made models and machines for tests of the planner.

#include <fmt/format.h>

#include "muster/plan/model_profile.h"
#include "muster/plan/way.h"

namespace muster::plan::testing {

inline constexpr std::int64_t kElements = 1024;  // of each block's only parameter
inline constexpr std::uint64_t kActivationBytes = 10'000;
inline constexpr std::uint64_t kOutputBytes = 1'000;

// A pass of 4 samples takes 1 ms forward and 2 ms backward in each block; an update takes no time.
inline ModelProfile blocks_alike(int count) {
  ModelProfile profile;
  PassProfile pass{.samples = 4, .blocks = {}};
  for (int b = 0; b < count; ++b) {
    profile.blocks.push_back({.name = fmt::format("b{}", b),
                              .trained = {kElements},
                              .optimizer_bytes = 2 * kElements * sizeof(float)});
    pass.blocks.push_back({std::chrono::milliseconds(1), std::chrono::milliseconds(2),
                           kActivationBytes, kOutputBytes});
  }
  profile.passes = {pass};
  profile.notes = 16;
  return profile;
}

// Cores and links of any number and speed; nobody sees others' memory.
inline Hardware free_hardware() {
  Hardware hardware;
  hardware.cores = 1000;
  hardware.wire = comm::Wire::kTcp;
  return hardware;
}

// data, of 8 slices of 4 samples in one pass each.
inline Way way(std::int32_t workers) {
  Way way;
  way.workers = workers;
  way.slice_samples = 4;
  way.micro_batch = 4;
  return way;
}

}  // namespace muster::plan::testing
