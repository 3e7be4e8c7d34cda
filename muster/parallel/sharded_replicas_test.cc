// Replicas of ranks that share out what ZeRO says: the bits of plain data parallelism, and as much
// on a rank as without the other replicas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

struct Grid {
  std::int32_t replicas;
  std::int32_t shards;
  std::int32_t ranks() const noexcept { return replicas * shards; }
};

class ShardedReplicas : public testing::TestWithParam<Recipe> {};

TEST_P(ShardedReplicas, HaveTheBitsOfPlainDataParallelism) {
  const Outcome expected = train_plain(GetParam(), options_of(1));
  for (const Grid grid : {Grid{2, 2}, Grid{3, 2}, Grid{2, 3}, Grid{3, 1}, Grid{1, 3}, Grid{5, 2}})
    expect_same(train_sharded(GetParam(), grid.ranks(), options_of(2), {}, grid.shards), expected,
                std::to_string(grid.replicas) + " x " + std::to_string(grid.shards));
}

TEST_P(ShardedReplicas, HaveThemIn16BitsAndWithSlicesInTurns) {
  SliceOptions options = options_of(1);
  options.compute.precision = models::Precision::kF16;
  options.bucket_sizes.dtype = DType::kBF16;
  const Outcome expected = train_plain(GetParam(), options);
  const auto turns = comm::owners_in_turns(std::vector{3, 0, 1, 4});
  expect_same(train_sharded(GetParam(), 4, options, turns, 2), expected, "2 x 2");
}

TEST_P(ShardedReplicas, KeepAsMuchAsOneOfThemAlone) {
  const std::uint64_t whole = train_plain(GetParam(), options_of(1)).held;
  std::vector<std::uint64_t> held;
  for (const Outcome& outcome : train_sharded(GetParam(), 4, options_of(1), {}, 2))
    held.push_back(outcome.held);
  EXPECT_EQ(held[0] + held[1], whole);
  EXPECT_EQ(held[2] + held[3], whole);
  EXPECT_EQ(held[0], held[2]);
}

// Gradients in shards as well, and weights.
TEST_P(ShardedReplicas, HaveTheBitsInStages2And3) {
  const Outcome expected = train_plain(GetParam(), options_of(1));
  for (const int stage : {2, 3})
    for (const Grid grid : {Grid{2, 2}, Grid{3, 2}, Grid{2, 3}, Grid{5, 2}})
      expect_same(
          train_sharded(GetParam(), grid.ranks(), in_stage(stage, options_of(2)), {}, grid.shards),
          expected, fmt::format("stage {}, {} x {}", stage, grid.replicas, grid.shards));
}

// Slices in pieces that are no subtrees, of ranks that have none, in passes, in 16 bits.
TEST_P(ShardedReplicas, HaveTheBitsInStages2And3HoweverSlicesAreDealt) {
  SliceOptions options = options_of(1);
  options.bucket_sizes.dtype = DType::kBF16;
  options.micro_batch_size = 2;
  const Outcome expected = train_plain(GetParam(), options);
  comm::LeafOwners mixed;
  for (const std::int32_t rank : {3, 0, 0, 2, 1, 3, 3, 0}) mixed.push_back(Rank{rank});
  for (const int stage : {2, 3})
    for (const auto& owners :
         {mixed, comm::owners_by_count({5, 0, 0, 3}), comm::owners_by_count({0, 8, 0, 0})})
      expect_same(train_sharded(GetParam(), 4, in_stage(stage, options), owners, 2), expected,
                  fmt::format("stage {}", stage));
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, ShardedReplicas,
    testing::Values(Recipe{kMlp, optim::SgdSpec{.weight_decay = 1e-3}},
                    Recipe{kResNet, optim::LarsSpec{.weight_decay = 1e-3}, {"stem*"}, 0.9},
                    Recipe{kGpt, optim::AdamWSpec{}, {"layer1*"}},
                    Recipe{kMlp, optim::LambSpec{}}));

TEST(Sharded, RefusesShardsThatRanksDoNotDivideInto) {
  const auto communicators = comm::create_loopback(3);
  const auto strategy = sharded_of({kMlp, optim::SgdSpec{}}, options_of(1), 2);
  const auto entered = strategy->enter(communicators.front(), comm::even_owners(kSlices, 3));
  ASSERT_FALSE(entered);
  EXPECT_EQ(entered.error().code, ErrorCode::kInvalid) << entered.error().message;
}

}  // namespace
}  // namespace muster::parallel::shards
