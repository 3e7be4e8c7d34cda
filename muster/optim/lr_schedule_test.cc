// Against the numbers of torch.optim.lr_scheduler 2.11 (peak 0.4; here one step is 100 samples).

#include "muster/optim/lr_schedule.h"

#include <gtest/gtest.h>

#include <array>

namespace muster::optim {
namespace {

constexpr std::int64_t kStep = 100;

ScheduleSpec over_ten_steps(ScheduleKind kind) {
  return {.kind = kind, .learning_rate = 0.4, .total_samples = 10 * kStep, .final_ratio = 0.1};
}

void expect_rates(const ScheduleSpec& spec, const std::array<double, 11>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(learning_rate_at(spec, static_cast<std::int64_t>(i) * kStep, kStep), expected[i],
                1e-12)
        << "step " << i;
}

TEST(LrSchedule, CosineIsCosineAnnealingLR) {
  expect_rates(over_ten_steps(ScheduleKind::kCosine),
               {0.4, 0.3911901729331277, 0.36562305898749053, 0.32580134541264516,
                0.27562305898749057, 0.22000000000000003, 0.1643769410125095, 0.11419865458735487,
                0.07437694101250948, 0.04880982706687237, 0.04});
}

TEST(LrSchedule, LinearIsLinearLR) {
  expect_rates(over_ten_steps(ScheduleKind::kLinear),
               {0.4, 0.364, 0.328, 0.292, 0.256, 0.22, 0.184, 0.148, 0.112, 0.076, 0.04});
}

// OneCycleLR(total_steps=11, pct_start=0.3): its peak is at step 0.3 · 11 - 1, its end at step 10.
TEST(LrSchedule, OneCycleIsOneCycleLR) {
  auto spec = over_ten_steps(ScheduleKind::kOneCycle);
  spec.final_ratio = 1.6e-6 / 0.4;
  spec.rise_fraction = 0.23;
  expect_rates(spec, {0.016, 0.16893644549389433, 0.384104569889047, 0.39189862712852064,
                      0.35379028990745215, 0.29043481971901136, 0.21223308323503992,
                      0.13202321159491795, 0.06297300511980315, 0.016418217282516346, 1.6e-06});
}

TEST(LrSchedule, ConstantStays) {
  const auto spec = over_ten_steps(ScheduleKind::kConstant);
  for (const std::int64_t seen : {0, 500, 100'000})
    EXPECT_EQ(learning_rate_at(spec, seen, kStep), 0.4);
}

TEST(LrSchedule, StaysAtTheEnd) {
  for (const auto kind : {ScheduleKind::kLinear, ScheduleKind::kCosine, ScheduleKind::kOneCycle})
    EXPECT_NEAR(learning_rate_at(over_ten_steps(kind), 5000, kStep), 0.04, 1e-12);
}

TEST(LrSchedule, WarmsUpInAStraightLineAndThenDecays) {
  auto spec = over_ten_steps(ScheduleKind::kCosine);
  spec.warmup_samples = 4 * kStep;
  EXPECT_NEAR(learning_rate_at(spec, 0, kStep), 0.1, 1e-12);
  EXPECT_NEAR(learning_rate_at(spec, 2 * kStep, kStep), 0.3, 1e-12);
  EXPECT_NEAR(learning_rate_at(spec, 3 * kStep, kStep), 0.4, 1e-12);
  EXPECT_NEAR(learning_rate_at(spec, 4 * kStep, kStep), 0.4, 1e-12);
  EXPECT_NEAR(learning_rate_at(spec, 7 * kStep, kStep), 0.22, 1e-12);
  spec.warmup_samples = 250;  // not a whole number of steps: never above the peak
  EXPECT_NEAR(learning_rate_at(spec, 200, kStep), 0.4, 1e-12);
}

// The rate belongs to the samples, not to the step: another batch size reads the same curve.
TEST(LrSchedule, DependsOnSamplesNotSteps) {
  const auto spec = over_ten_steps(ScheduleKind::kLinear);
  EXPECT_EQ(learning_rate_at(spec, 400, 100), learning_rate_at(spec, 400, 400));
}

TEST(LrSchedule, ScalesWithTheBatch) {
  EXPECT_EQ(scale_learning_rate(BatchScaling::kNone, 0.1, 1024, 256), 0.1);
  EXPECT_DOUBLE_EQ(scale_learning_rate(BatchScaling::kLinear, 0.1, 1024, 256), 0.4);
  EXPECT_DOUBLE_EQ(scale_learning_rate(BatchScaling::kSquareRoot, 0.1, 1024, 256), 0.2);
}

TEST(LrSchedule, RefusesWhatMakesNoSense) {
  const auto good = over_ten_steps(ScheduleKind::kCosine);
  EXPECT_TRUE(validate(good));
  auto bad = good;
  bad.learning_rate = -1;
  EXPECT_FALSE(validate(bad));
  bad = good;
  bad.warmup_samples = 2000;
  EXPECT_FALSE(validate(bad));
  bad = over_ten_steps(ScheduleKind::kOneCycle);
  bad.warmup_samples = 1;
  EXPECT_FALSE(validate(bad));
  bad = good;
  bad.total_samples = 0;
  EXPECT_FALSE(validate(bad));
}

}  // namespace
}  // namespace muster::optim
