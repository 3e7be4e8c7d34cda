// Data parallelism in 16 bits: the same bits at any size, and overflows that all ranks skip alike.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <thread>

#include "muster/parallel/tensor_bridge.h"
#include "muster/parallel/testing/plain_training.h"

namespace muster::parallel {
namespace {

class MixedPrecision : public ::testing::TestWithParam<models::Precision> {};

TEST_P(MixedPrecision, SameBitsAtAnyNumberOfRanksAndLanes) {
  for (const models::ModelSpec& spec : {kMlp, kResNet}) {
    SliceOptions options{.seed = 3, .bucket_sizes = {1 << 10, 1 << 12}};
    const std::string full = train_together(spec, 1, options).front().hash;
    options.compute.precision = GetParam();
    const std::string expected = train_together(spec, 1, options).front().hash;
    EXPECT_NE(expected, full);
    for (const std::int32_t size : {2, 3, 5}) {
      options.lanes = size == 5 ? 1 : 2;
      for (const Outcome& outcome : train_together(spec, size, options))
        EXPECT_EQ(outcome.hash, expected) << size << " ranks, " << models::family_of(spec);
    }
  }
}

TEST_P(MixedPrecision, EvaluatesInIt) {
  const auto loss_in = [](models::Precision precision) {
    auto strategy = make_strategy(kMlp, comm::create_loopback(1).front(),
                                  {.compute = {.precision = precision}});
    const Batch batch(16, comm::LeafRange{0, kSlices}, 1);
    std::vector<EvaluationTotals> by_slice(kSlices);
    EXPECT_TRUE(strategy->evaluate(batch.step, by_slice));
    return strategy->combine(by_slice).value().loss;
  };
  const double full = loss_in(models::Precision::kF32);
  EXPECT_NE(loss_in(GetParam()), full);
  EXPECT_NEAR(loss_in(GetParam()), full, 0.01 * full);
}

INSTANTIATE_TEST_SUITE_P(Of16Bits, MixedPrecision,
                         ::testing::Values(models::Precision::kBF16, models::Precision::kF16));

// The scale is a power of two, and nothing is clipped: it leaves no trace, in auxiliary losses
// neither.
TEST(LossScaling, ChangesNoGradientThatFits) {
  for (const models::ModelSpec& spec : {kMlp, kMoe}) {
    const auto train_with = [&](double loss_scale) {
      auto strategy = make_strategy(spec, comm::create_loopback(1).front(), {});
      const Batch batch(16, Batch::slices_of({0, kSlices}), 1, content_of(spec));
      const auto report = strategy->step({.batch = batch.step,
                                          .step = Step{1},
                                          .learning_rate = 0.1,
                                          .flags = {},
                                          .before_update = {},
                                          .loss_scale = loss_scale});
      return std::pair(hash_of(*strategy), report.value().grad_norm);
    };
    EXPECT_EQ(train_with(4096), train_with(1)) << models::family_of(spec);
    EXPECT_NE(train_with(3).first, train_with(1).first);
  }
}

struct Skip {
  std::optional<std::string> overflow;
  std::string before, after, next;  // hashes of the state
};

// One step in which `spoil` has been at slice `slice`, and a good one after it. By rank.
std::vector<Skip> skip_one(std::int32_t slice, const std::function<void(DataParallel&)>& prepare,
                           const std::function<void(at::Tensor)>& spoil) {
  constexpr std::int32_t kRanks = 3;
  const auto communicators = comm::create_loopback(kRanks);
  const comm::LeafOwners owners = comm::even_owners(kSlices, kRanks);
  std::vector<Skip> skips(kRanks);
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < skips.size(); ++r)
    ranks.emplace_back([&, r] {
      const std::vector<std::int32_t> mine = slices_of(owners, communicators[r]->group().rank);
      auto strategy = make_strategy(kMlp, communicators[r],
                                    {.compute = {.precision = models::Precision::kF16}});
      prepare(*strategy);
      const auto step = [&](const Batch& batch) {
        return strategy
            ->step({.batch = batch.step,
                    .step = Step{1},
                    .learning_rate = 0.1,
                    .flags = {},
                    .before_update = {},
                    .loss_scale = 65536})
            .value()
            .overflow;
      };
      Skip& skip = skips[r];
      skip.before = hash_of(*strategy);
      Batch batch(21, mine, 1);
      for (std::size_t i = 0; i < mine.size(); ++i)
        if (mine[i] == slice) spoil(batch.tensors[2 * i]);
      skip.overflow = step(batch);
      skip.after = hash_of(*strategy);
      EXPECT_EQ(step(Batch(21, mine, 2)), std::nullopt);
      skip.next = hash_of(*strategy);
    });
  ranks.clear();
  return skips;
}

TEST(LossScaling, AnOverflowInAnySliceSkipsTheStepOnAllRanks) {
  const auto nothing = [](auto&&) {};
  const std::string undisturbed = skip_one(-1, nothing, nothing)[0].next;
  for (const std::int32_t slice : {0, 4, 7})
    for (const Skip& skip :
         skip_one(slice, nothing, [](const at::Tensor& images) { images[1].fill_(1e6); })) {
      EXPECT_EQ(skip.overflow, "head.linear.bias") << "the last of forward, the first of backward";
      EXPECT_EQ(skip.after, skip.before);
      EXPECT_NE(skip.next, skip.before);
      EXPECT_NE(skip.next, undisturbed);
    }
}

// The head's own gradients fit; what it hands back does not.
TEST(LossScaling, TheTensorWhereTheOverflowBeganIsNamed) {
  const auto steep = [](DataParallel& strategy) {
    for (const StateSlice& slice : strategy.model_state()) {
      if (slice.name == "head.linear.weight") tensor_over(slice.tensor).narrow(0, 0, 5).fill_(3e4);
      if (slice.name == "layer0.linear.weight") tensor_over(slice.tensor).mul_(1e-6);
    }
  };
  const auto communicators = comm::create_loopback(1);
  auto strategy =
      make_strategy(kMlp, communicators[0], {.compute = {.precision = models::Precision::kF16}});
  steep(*strategy);
  const Batch batch(21, comm::LeafRange{0, kSlices}, 1);
  const auto report = strategy->step({.batch = batch.step,
                                      .step = Step{1},
                                      .learning_rate = 0.1,
                                      .flags = {},
                                      .before_update = {},
                                      .loss_scale = 65536});
  EXPECT_EQ(report.value().overflow, "layer0.linear.bias");
}

}  // namespace
}  // namespace muster::parallel
