#pragma once
// What a rank has of a state, taken and given back as checkpoints do. For tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "muster/parallel/strategy.h"

namespace muster::parallel {

using StateBytes = std::vector<std::vector<std::byte>>;

inline StateBytes read_state(Strategy& strategy) {
  StateBytes bytes;
  for (const StateSlice& slice : state_here(strategy))
    bytes.emplace_back(slice.tensor.bytes.begin(), slice.tensor.bytes.end());
  return bytes;
}

inline void write_state(Strategy& strategy, const StateBytes& bytes, std::int64_t updates) {
  const std::vector<StateSlice> state = state_here(strategy);
  ASSERT_EQ(state.size(), bytes.size());
  for (std::size_t i = 0; i < bytes.size(); ++i)
    std::ranges::copy(bytes[i], state[i].tensor.bytes.begin());
  strategy.loaded(updates);
}

}  // namespace muster::parallel
