#include "muster/train/assignment.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace muster::train {
namespace {

std::vector<std::int32_t> dealt_to_replicas(std::int32_t slices, const std::vector<Rank>& firsts,
                                            std::int32_t in_turn) {
  const std::vector<std::int32_t> workers{0, 1, 2, 3, 4, 5, 6, 7};
  const Assignment dealt = Assignment::of_replicas(slices, firsts, in_turn, workers);
  EXPECT_EQ(dealt.workers, workers);
  std::vector<std::int32_t> owners;
  for (const Rank owner : dealt.owners) owners.push_back(to_int(owner));
  return owners;
}

TEST(Assignment, GivesReplicasNeighbouringSlices) {
  EXPECT_EQ(dealt_to_replicas(8, {Rank{0}, Rank{2}, Rank{4}, Rank{6}}, 1),
            std::vector<std::int32_t>({0, 0, 2, 2, 4, 4, 6, 6}));
  EXPECT_EQ(dealt_to_replicas(5, {Rank{0}, Rank{4}}, 1),
            std::vector<std::int32_t>({0, 0, 0, 4, 4}));
}

// Those that share out the gradients of their slices compute neighbouring ones at the same time.
TEST(Assignment, GivesThemToSomeReplicasInTurns) {
  EXPECT_EQ(dealt_to_replicas(8, {Rank{0}, Rank{2}, Rank{4}, Rank{6}}, 2),
            std::vector<std::int32_t>({0, 2, 0, 2, 4, 6, 4, 6}));
  EXPECT_EQ(dealt_to_replicas(8, {Rank{0}, Rank{2}, Rank{4}, Rank{6}}, 4),
            std::vector<std::int32_t>({0, 2, 4, 6, 0, 2, 4, 6}));
  EXPECT_EQ(dealt_to_replicas(5, {Rank{0}, Rank{4}}, 2),
            std::vector<std::int32_t>({0, 4, 0, 4, 0}));
}

}  // namespace
}  // namespace muster::train
