#pragma once
// What a rank has of a state, taken and given back as checkpoints do. For tests.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
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

// `take_step(number)` on each rank: what comes after step 3 is the same when the state after step 1
// is loaded into a strategy that has gone on, and step 3 is taken from there.
template <class TakeStep>
void expect_takes_over(Strategy& strategy, const std::shared_ptr<comm::Communicator>& communicator,
                       const comm::LeafOwners& owners, const TakeStep& take_step) {
  const auto step = [&](int number) {
    take_step(number);
    return read_state(strategy);
  };
  ASSERT_TRUE(strategy.enter(communicator, owners));
  const StateBytes first = step(1), second = step(3);
  EXPECT_NE(first, second);
  write_state(strategy, first, 1);
  ASSERT_TRUE(strategy.enter(communicator, owners));
  EXPECT_EQ(read_state(strategy), first);
  EXPECT_EQ(step(3), second);
}

}  // namespace muster::parallel
