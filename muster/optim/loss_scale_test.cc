#include "muster/optim/loss_scale.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>

namespace muster::optim {
namespace {

// After steps that went well ('.') or overflowed ('x').
LossScale after(const LossScaleSpec& spec, std::string_view steps) {
  LossScale scale = initial_loss_scale(spec);
  for (const char step : steps) scale = next_loss_scale(spec, scale, step == 'x').value();
  return scale;
}

TEST(LossScale, DefaultsAreThoseOfGradScaler) {
  const LossScaleSpec spec;
  EXPECT_EQ(initial_loss_scale(spec), (LossScale{.scale = 65536}));
  EXPECT_EQ(after(spec, "xx"), (LossScale{.scale = 16384}));
  EXPECT_EQ(after(spec, std::string(1999, '.')), (LossScale{.scale = 65536, .good_steps = 1999}));
  EXPECT_EQ(after(spec, std::string(2000, '.')), (LossScale{.scale = 131072}));
}

TEST(LossScale, GrowsAfterAnIntervalWithoutOverflowsAndBacksOffAtOnce) {
  const LossScaleSpec spec{
      .init_scale = 100, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 2};
  EXPECT_EQ(after(spec, "."), (LossScale{.scale = 100, .good_steps = 1}));
  EXPECT_EQ(after(spec, ".."), (LossScale{.scale = 300}));
  EXPECT_EQ(after(spec, ".x."), (LossScale{.scale = 25, .good_steps = 1}));
  EXPECT_EQ(after(spec, ".x.."), (LossScale{.scale = 75}));
  EXPECT_EQ(after(spec, "..x.x..."), (LossScale{.scale = 56.25, .good_steps = 1}));
}

TEST(LossScale, StaysBetweenTheSmallestAndWhatAFloatHolds) {
  const LossScaleSpec low{.init_scale = 3, .min_scale = 2};
  EXPECT_EQ(after(low, "x").scale, 2);
  EXPECT_EQ(after(low, "xx"), (LossScale{.scale = 2, .stuck = 1}));
  const LossScaleSpec high{.init_scale = 1e38, .growth_interval = 1};
  EXPECT_EQ(after(high, ".").scale, 2e38);
  EXPECT_EQ(after(high, "..").scale, 2e38);
}

TEST(LossScale, DivergesWhenTheSmallestDoesNotHelp) {
  const LossScaleSpec spec{.init_scale = 4, .min_scale = 1};
  const LossScale stuck = after(spec, "xxxx");
  EXPECT_EQ(stuck, (LossScale{.scale = 1, .stuck = 2}));
  const auto diverged = next_loss_scale(spec, stuck, true);
  ASSERT_FALSE(diverged);
  EXPECT_EQ(diverged.error().code, ErrorCode::kNumeric);
  EXPECT_THAT(diverged.error().message, testing::HasSubstr("3 steps in a row"));
  EXPECT_EQ(after(spec, "xxxx.xx").stuck, 2) << "a good step between them begins anew";
}

}  // namespace
}  // namespace muster::optim
