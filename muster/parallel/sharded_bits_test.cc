// Gradients and weights in shards, ZeRO stages 2 and 3: the bits of plain data parallelism.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

class ZeroTwoThree : public testing::TestWithParam<std::tuple<int, Recipe>> {
 protected:
  static SliceOptions staged(const SliceOptions& options) {
    return in_stage(std::get<int>(GetParam()), options);
  }
  static const Recipe& recipe() { return std::get<Recipe>(GetParam()); }
};

TEST_P(ZeroTwoThree, HasTheBitsOfPlainDataParallelism) {
  const Outcome expected = train_plain(recipe(), options_of(1));
  for (const auto& [size, lanes] : {std::pair{1, 2}, {2, 1}, {3, 2}, {5, 1}, {7, 1}})
    expect_same(train_sharded(recipe(), size, staged(options_of(lanes))), expected,
                fmt::format("{} ranks, {} lanes", size, lanes));
}

// The last of three samples of a slice by itself.
TEST_P(ZeroTwoThree, HasThemInMicroBatchesOf16BitsAsWell) {
  for (const std::int64_t micro_batch_size : {0, 2}) {
    SliceOptions options = options_of(1);
    options.compute.precision = models::Precision::kBF16;
    options.bucket_sizes.dtype = DType::kBF16;
    options.micro_batch_size = micro_batch_size;
    const Outcome expected = train_plain(recipe(), options);
    expect_same(train_sharded(recipe(), 3, staged(options)), expected,
                fmt::format("micro-batches of {}", micro_batch_size));
  }
}

const auto kStages = testing::Values(2, 3);
INSTANTIATE_TEST_SUITE_P(Recipes, ZeroTwoThree, testing::Combine(kStages, kRecipes));
INSTANTIATE_TEST_SUITE_P(
    Texts, ZeroTwoThree,
    testing::Combine(kStages,
                     testing::Values(Recipe{kGpt, optim::AdamWSpec{}},
                                     Recipe{kGpt, optim::SgdSpec{}, {}, 0.9, {}, true},
                                     Recipe{kGpt, optim::AdamWSpec{}, {"embedding*", "layer0*"}},
                                     Recipe{kGpt, optim::AdamWSpec{}, {}, 0, {.rank = 2}},
                                     Recipe{kLlama, optim::AdamWSpec{}})));

class ShardedStages : public testing::TestWithParam<int> {};

// Ranks with more slices than others, or none; lanes with more than the slowest rank has.
TEST_P(ShardedStages, HaveTheSameBitsHoweverSlicesAreDealt) {
  for (const Recipe& recipe : {Recipe{kMlp, optim::LambSpec{}}, Recipe{kMoe, optim::AdamWSpec{}}}) {
    SliceOptions options = options_of(2);
    options.micro_batch_size = 2;
    const Outcome expected = train_plain(recipe, options);
    for (const std::vector<std::int32_t>& counts :
         {std::vector{5, 3, 0}, {1, 0, 7}, {0, 0, 8}, {2, 5, 1}})
      for (const auto& owners : {comm::owners_by_count(counts), comm::owners_in_turns(counts)})
        expect_same(train_sharded(recipe, 3, in_stage(GetParam(), options), owners), expected,
                    testing::PrintToString(counts));
  }
}

TEST_P(ShardedStages, InFastModeAreNearlyThoseOfOrderedMode) {
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = {70}}, optim::SgdSpec{}};
  SliceOptions options = in_stage(GetParam(), options_of(2));
  const double expected = train_plain(recipe, options_of(2)).grad_norm;
  options.ordered = false;
  for (const auto& counts : {std::vector{3, 3, 2}, {5, 0, 3}}) {
    const auto outcomes = train_sharded(recipe, 3, options, comm::owners_in_turns(counts));
    for (const Outcome& outcome : outcomes) {
      if (!outcome.model.empty()) {
        EXPECT_EQ(outcome.model, outcomes.front().model);
      }
      EXPECT_NEAR(outcome.grad_norm, expected, 1e-5 * expected);
    }
  }
}

// A block that cannot go on: no lane waits for what another one will never have, and nobody for
// gathers that will not come.
TEST_P(ShardedStages, ALaneThatFailsEndsTheStep) {
  struct Failing final : models::Block {
    at::Tensor weight = add_parameter({.name = "weight"}, {kImage * kImage, kImage* kImage});
    at::Tensor forward(at::Tensor input, models::PassContext& context) override {
      TORCH_CHECK(context.random.below(0, 2) == 0, "this slice does not work");
      return at::matmul(input.flatten(1), weight);
    }
  };
  auto model = std::make_unique<models::Model>("failing", [] {
    return std::vector<models::NamedBlock>{{"one", std::make_shared<Failing>()},
                                           {"two", std::make_shared<Failing>()},
                                           {"three", std::make_shared<Failing>()}};
  });
  const auto create = [](std::vector<optim::OptimizedParameter> parts) {
    return optim::create_optimizer(optim::SgdSpec{}, std::move(parts));
  };
  const auto strategy =
      Sharded::create(std::move(model), create, in_stage(GetParam(), options_of(2)), system_clock())
          .value();
  const comm::LeafOwners owners = comm::even_owners(kSlices, 1);
  ASSERT_TRUE(strategy->enter(comm::create_loopback(1).front(), owners));
  const Batch batch(21, slices_of(owners, Rank{0}), 1);
  const auto report = strategy->step({.batch = batch.step,
                                      .step = Step{1},
                                      .learning_rate = 0.05,
                                      .flags = {},
                                      .before_update = {}});
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, testing::HasSubstr("this slice does not work"));
}

INSTANTIATE_TEST_SUITE_P(Of, ShardedStages, kStages);

}  // namespace
}  // namespace muster::parallel::shards
