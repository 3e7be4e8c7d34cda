// Data parallelism, of whole copies and of shards, whose model lies in memory that the host cannot
// touch comes to the same bits as on the host.
#include "muster/models/testing/foreign_device.h"

#include <gtest/gtest.h>

#include "muster/parallel/testing/on_ranks.h"
#include "muster/parallel/testing/sharded_training.h"
#include "muster/parallel/testing/state_bytes.h"
#include "muster/parallel/testing/zero_stage.h"

namespace muster::parallel {
namespace {

shards::Recipe on_device(shards::Recipe recipe) {
  recipe.device = models::foreign_device();
  return recipe;
}

class OnForeignDevice : public ::testing::TestWithParam<shards::Recipe> {};

void expect_the_same(const shards::Recipe& recipe, const SliceOptions& options) {
  const shards::Outcome host = shards::train_plain(recipe, options);
  const shards::Outcome there = shards::train_plain(on_device(recipe), options);
  EXPECT_EQ(there.model, host.model);
  EXPECT_EQ(there.optimizer, host.optimizer);
  EXPECT_EQ(there.grad_norm, host.grad_norm);
  EXPECT_EQ(there.average_loss, host.average_loss);
}

TEST_P(OnForeignDevice, SameBits) {
  for (const std::int32_t lanes : {1, 2}) expect_the_same(GetParam(), shards::options_of(lanes));
}

TEST_P(OnForeignDevice, SameBitsIn16Bits) {
  for (const auto precision : {models::Precision::kBF16, models::Precision::kF16}) {
    SliceOptions options = shards::options_of(1);
    options.compute.precision = precision;
    expect_the_same(GetParam(), options);
  }
}

TEST_P(OnForeignDevice, SameBitsInMicroBatches) {
  SliceOptions options = shards::options_of(1);
  options.micro_batch_size = 1;
  expect_the_same(GetParam(), options);
}

INSTANTIATE_TEST_SUITE_P(Of, OnForeignDevice,
                         ::testing::Values(shards::Recipe{shards::kMlp, optim::SgdSpec{}, {}, 0.9},
                                           shards::Recipe{shards::kMlp, optim::AdamWSpec{}},
                                           shards::Recipe{shards::kMlp, optim::LarsSpec{}},
                                           shards::Recipe{shards::kMlp, optim::LambSpec{}, {}, 0.9},
                                           shards::Recipe{
                                               shards::kMlp, optim::SgdSpec{}, {"*.bias"}},
                                           shards::Recipe{.model = shards::kMlp,
                                                          .optimizer = optim::AdamWSpec{},
                                                          .adapters = {.rank = 2, .dropout = 0.1}},
                                           shards::Recipe{shards::kGpt, optim::AdamWSpec{}},
                                           shards::Recipe{shards::kMoe, optim::AdamWSpec{}}));

class ShardsOnForeignDevice : public ::testing::TestWithParam<shards::Recipe> {};

TEST_P(ShardsOnForeignDevice, SameBits) {
  const shards::Recipe& recipe = GetParam();
  const shards::Outcome host = shards::train_plain(recipe, shards::options_of(1));
  for (const int stage : {1, 2, 3}) {
    const SliceOptions options = in_stage(stage, shards::options_of(2));
    const std::string where = fmt::format("stage {}", stage);
    shards::expect_same(shards::train_sharded(on_device(recipe), 3, options), host, where);
    shards::expect_same(shards::train_sharded(on_device(recipe), 4, options, {}, 2), host,
                        where + ", two replicas");
  }
}

// Goes back to the state after the first step, and takes the other one again.
TEST_P(ShardsOnForeignDevice, TakeOverWhatIsLoaded) {
  for (const int stage : {1, 2, 3})
    on_ranks(3, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const Rank rank = communicator->group().rank;
      shards::Recipe recipe = GetParam();
      recipe.device = models::foreign_device(static_cast<c10::DeviceIndex>(to_int(rank)));
      const auto strategy = shards::sharded_of(recipe, in_stage(stage, shards::options_of(1)));
      const comm::LeafOwners owners = shards::owners_for(*strategy, 3);
      expect_takes_over(*strategy, communicator, owners, [&](int number) {
        shards::one_step(*strategy, slices_of(owners, rank), number);
      });
    });
}

INSTANTIATE_TEST_SUITE_P(
    Of, ShardsOnForeignDevice,
    ::testing::Values(
        shards::Recipe{shards::kMlp, optim::SgdSpec{}, {}, 0.9},
        shards::Recipe{shards::kMlp, optim::LambSpec{}, {"head*"}, 0.9},
        shards::Recipe{.model = shards::kGpt, .optimizer = optim::AdamWSpec{}, .recomputed = true},
        shards::Recipe{shards::kMoe, optim::AdamWSpec{}, {}, 0, {.rank = 2}}));

}  // namespace
}  // namespace muster::parallel
