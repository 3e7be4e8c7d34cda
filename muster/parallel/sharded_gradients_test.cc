// Gradients in shards: ZeRO stage 2.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "muster/parallel/testing/sharded_training.h"

namespace muster::parallel::shards {
namespace {

SliceOptions stage_two(SliceOptions options) {
  options.shard_gradients = true;
  return options;
}

class ZeroTwo : public testing::TestWithParam<Recipe> {};

TEST_P(ZeroTwo, HasTheBitsOfPlainDataParallelism) {
  const Outcome expected = train_plain(GetParam(), options_of(1));
  for (const auto& [size, lanes] : {std::pair{1, 2}, {2, 1}, {3, 2}, {7, 1}})
    expect_same(train_sharded(GetParam(), size, stage_two(options_of(lanes))), expected,
                fmt::format("{} ranks, {} lanes", size, lanes));
}

// The last of three samples of a slice by itself.
TEST_P(ZeroTwo, HasThemInMicroBatchesOf16BitsAsWell) {
  for (const std::int64_t micro_batch_size : {0, 2}) {
    SliceOptions options = options_of(1);
    options.compute.precision = models::Precision::kBF16;
    options.bucket_sizes.dtype = DType::kBF16;
    options.micro_batch_size = micro_batch_size;
    const Outcome expected = train_plain(GetParam(), options);
    expect_same(train_sharded(GetParam(), 3, stage_two(options)), expected,
                fmt::format("micro-batches of {}", micro_batch_size));
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, ZeroTwo, kRecipes);

TEST(ShardedGradients, HaveTheSameBitsHoweverSlicesAreDealt) {
  const Recipe recipe{kMlp, optim::LambSpec{}};
  SliceOptions options = options_of(2);
  options.micro_batch_size = 2;
  const Outcome expected = train_plain(recipe, options);
  for (const std::vector<std::int32_t>& counts :
       {std::vector{5, 3, 0}, {1, 0, 7}, {0, 0, 8}, {2, 5, 1}})
    for (const auto& owners : {comm::owners_by_count(counts), comm::owners_in_turns(counts)})
      expect_same(train_sharded(recipe, 3, stage_two(options), owners), expected,
                  testing::PrintToString(counts));
}

TEST(ShardedGradients, InFastModeAreNearlyThoseOfOrderedMode) {
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = {70}}, optim::SgdSpec{}};
  SliceOptions options = stage_two(options_of(2));
  const double expected = train_plain(recipe, options_of(2)).grad_norm;
  options.ordered = false;
  for (const auto& counts : {std::vector{3, 3, 2}, {5, 0, 3}}) {
    const auto outcomes = train_sharded(recipe, 3, options, comm::owners_in_turns(counts));
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.model, outcomes.front().model);
      EXPECT_NEAR(outcome.grad_norm, expected, 1e-5 * expected);
    }
  }
}

struct Figures {
  std::uint64_t formula = 0;
  std::uint64_t optimizer = 0, optimizer_formula = 0;
  Sharded::GradientMemory measured;
  std::uint64_t sent = 0;
};

std::vector<Figures> figures_of(const Recipe& recipe, std::int32_t size,
                                const SliceOptions& options) {
  const auto communicators = comm::create_loopback(size);
  std::vector<Figures> figures(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < figures.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto strategy = sharded_of(recipe, options);
      const comm::LeafOwners owners = owners_for(*strategy, size);
      Figures& found = figures[r];
      found.formula = strategy->gradient_bytes(size);
      found.optimizer_formula = strategy->optimizer_bytes(size);
      EXPECT_TRUE(strategy->enter(communicators[r], owners));
      const Rank rank{static_cast<std::int32_t>(r)};
      for (std::int64_t step = 1; step <= 3; ++step)
        found.sent = one_step(*strategy, slices_of(owners, rank), step).bytes_reduced;
      found.measured = strategy->measured_gradients();
      for (const StateSlice& slice : strategy->optimizer_state())
        found.optimizer += slice.tensor.bytes.size();
    });
  ranks.clear();
  return figures;
}

// Many small layers, so that a few buckets are little of the whole.
TEST(ShardedGradients, HoldAndSendWhatTheFormulaeSay) {
  const std::vector<std::int64_t> hidden(400, 32);
  const Recipe recipe{models::MlpSpec{.inputs = kImage * kImage, .hidden = hidden},
                      optim::SgdSpec{}};
  SliceOptions options = stage_two(options_of(1));
  options.bucket_sizes = {1 << 12, 1 << 12};
  const std::uint64_t whole = sharded_of(recipe, options)->gradient_bytes(1) / 3;
  const auto near = [](std::uint64_t found, std::uint64_t expected, std::uint64_t more = 0) {
    EXPECT_GE(found, expected * 98 / 100);
    EXPECT_LE(found, expected * 102 / 100 + more);
  };
  for (const std::int32_t size : {2, 4, 5}) {
    const testing::ScopedTrace trace(__FILE__, __LINE__, fmt::format("{} ranks", size));
    const auto ranks = static_cast<std::uint64_t>(size);
    const std::uint64_t bucket = 1 << 13;  // the largest
    std::uint64_t sent = 0;
    for (const Figures& rank : figures_of(recipe, size, options)) {
      near(rank.measured.sums, rank.formula, 2 * ranks * bucket);  // two buckets of everybody
      near(rank.optimizer, rank.optimizer_formula);
      EXPECT_LE(rank.measured.window, (4 + ranks) * bucket);
      sent += rank.sent;
    }
    near(sent, (kSlices + ranks) * (ranks - 1) * whole / ranks);
  }
}

// A block that cannot go on: no lane waits for what another one will never have.
TEST(ShardedGradients, ALaneThatFailsEndsTheStep) {
  struct Failing final : models::Block {
    at::Tensor weight = add_parameter({.name = "weight"}, {kImage * kImage, 10});
    at::Tensor forward(at::Tensor input, models::PassContext& context) override {
      TORCH_CHECK(context.random.below(0, 2) == 0, "this slice does not work");
      return at::matmul(input.flatten(1), weight);
    }
  };
  auto model = std::make_unique<models::Model>("failing", [] {
    return std::vector<models::NamedBlock>{{"all", std::make_shared<Failing>()}};
  });
  const auto create = [](std::vector<optim::OptimizedParameter> parts) {
    return optim::create_optimizer(optim::SgdSpec{}, std::move(parts));
  };
  const auto strategy =
      Sharded::create(std::move(model), create, stage_two(options_of(2)), system_clock()).value();
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

}  // namespace
}  // namespace muster::parallel::shards
