// Data parallelism whose model lies in memory that the host cannot touch comes to the same bits as
// on the host. (Of attention libtorch computes the general way there, in another order.)
#include "muster/models/testing/foreign_device.h"

#include <gtest/gtest.h>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel {
namespace {

class OnForeignDevice : public ::testing::TestWithParam<shards::Recipe> {};

shards::Outcome train_there(const shards::Recipe& recipe, const SliceOptions& options) {
  const models::ScopedDevice device(models::foreign_device());
  return shards::train_plain(recipe, options);
}

void expect_the_same(const shards::Recipe& recipe, const SliceOptions& options) {
  const shards::Outcome host = shards::train_plain(recipe, options);
  const shards::Outcome there = train_there(recipe, options);
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

INSTANTIATE_TEST_SUITE_P(
    Of, OnForeignDevice,
    ::testing::Values(shards::Recipe{shards::kMlp, optim::SgdSpec{}, {}, 0.9},
                      shards::Recipe{shards::kMlp, optim::AdamWSpec{}},
                      shards::Recipe{shards::kMlp, optim::LarsSpec{}},
                      shards::Recipe{shards::kMlp, optim::LambSpec{}, {}, 0.9},
                      shards::Recipe{shards::kMlp, optim::SgdSpec{}, {"*.bias"}},
                      shards::Recipe{.model = shards::kMlp,
                                     .optimizer = optim::AdamWSpec{},
                                     .adapters = {.rank = 2, .dropout = 0.1}}));

}  // namespace
}  // namespace muster::parallel
