// The loss scale of a training in fp16: the same decisions on every worker, whatever happens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/train/testing/town.h"

namespace muster::train {
namespace {

using ::testing::HasSubstr;

// Begins too high and grows again soon: steps are skipped throughout.
constexpr optim::LossScaleSpec kRestless{.init_scale = 1 << 24, .growth_interval = 3};

struct Expected {
  std::string hash;
  optim::LossScale scale;
};

Expected expected() {
  const End end = alone({.loss_scale = kRestless});
  EXPECT_TRUE(end.outcome) << end.error;
  if (!end.outcome) return {};
  return {end.hash, *end.outcome->progress.loss_scale};
}

void expect_same(const std::map<std::int32_t, End>& ends, const Expected& expected) {
  for (const auto& [worker, end] : ends) {
    expect_well(end, expected.hash);
    if (!end.outcome) continue;
    EXPECT_EQ(end.outcome->progress.loss_scale, expected.scale) << worker;
  }
}

TEST(Scaling, SkipsStepsThatOverflowAndSaysWhichTensor) {
  const End end = alone({.loss_scale = kRestless});
  ASSERT_TRUE(end.outcome) << end.error;
  EXPECT_THAT(end.told,
              HasSubstr("step 1 overflows in fp16 at loss scale 1.67772e+07, first in the "
                        "gradient of head.linear"));
  EXPECT_THAT(end.told, HasSubstr("the scale is 8.38861e+06 from now on"));
  const Progress& progress = end.outcome->progress;
  const auto skipped = std::ranges::count(end.told, '\n');
  EXPECT_GE(skipped, 5);
  EXPECT_EQ(progress.optimizer_steps, kSteps - skipped);
  EXPECT_EQ(progress.committed, Step{kSteps});
  EXPECT_NE(end.hash, undisturbed());
}

TEST(Scaling, IsTheSameAtAnyNumberOfWorkers) {
  const Expected one = expected();
  for (const std::int32_t size : {2, 3, 5}) {
    Town town(size);
    expect_same(train(town, size, {.loss_scale = kRestless}), one);
  }
}

TEST(Scaling, StandsADeathInTheMiddleOfAnyStep) {
  const Expected one = expected();
  for (const std::int64_t step : {1, 2, 8, 13, 23}) {
    Town town(3);
    auto ends = train(town, 3, {.death = Death{1, step}, .loss_scale = kRestless});
    EXPECT_EQ(ends.at(1).error, "dead");
    ends.erase(1);
    expect_same(ends, one);
  }
}

TEST(Scaling, IsCopiedToWhoeverLacksAStep) {
  const Expected one = expected();
  for (const std::int32_t worker : {0, 2})
    for (const std::int64_t step : {1, 9, 12}) {
      Town town(3);
      expect_same(train(town, 3, {.breaks = Break{worker, step}, .loss_scale = kRestless}), one);
    }
}

TEST(Scaling, IsGivenToNewcomers) {
  const Expected one = expected();
  Town town(2, 9);
  expect_same(train(town, 2, {.join = Join{6, {2, 3}}, .loss_scale = kRestless}), one);
}

TEST(Scaling, GoesBackWithTheState) {
  const Expected one = expected();
  for (const std::int64_t step : {3, 8}) {
    Town town(3);
    auto ends = train(town, 3, {.flips = {{2, step, 0}}, .loss_scale = kRestless});
    EXPECT_EQ(town.quarantined, std::multiset<std::int32_t>{2});
    ends.erase(2);
    expect_same(ends, one);
  }
}

TEST(Scaling, OverflowsThatNoScaleMendsAreADivergence) {
  const optim::LossScaleSpec hopeless{.init_scale = 1e30, .min_scale = 1e30};
  Town town(2);
  for (const auto& [worker, end] : train(town, 2, {.loss_scale = hopeless})) {
    EXPECT_FALSE(end.outcome);
    EXPECT_THAT(end.error, HasSubstr("step 3, overflow of head.linear"));
    EXPECT_THAT(end.error, HasSubstr("the training has diverged"));
  }
}

}  // namespace
}  // namespace muster::train
