#include "muster/train/divergence.h"

#include <gtest/gtest.h>

namespace muster::train {
namespace {

// The step at which the guard ends a training whose loss is `first`, then `later`; 0: not within
// 200.
std::int64_t ends_at(double first, double later) {
  DivergenceGuard guard(std::nullopt);
  for (std::int64_t step = 1; step <= 200; ++step)
    if (!guard.observe(Step{step}, step == 1 ? first : later, 0.1)) return step;
  return 0;
}

TEST(Divergence, ALossFarAboveTheFirstEndsTheTraining) {
  EXPECT_EQ(ends_at(2.0, 19.0), 0);
  EXPECT_GT(ends_at(2.0, 100.0), 50);
  EXPECT_LT(ends_at(2.0, 1000.0), 60);
}

TEST(Divergence, OfAModelThatBeginsTrainedIsNotMeasuredAgainstNextToNothing) {
  EXPECT_EQ(ends_at(0.0, 0.5), 0);
  EXPECT_EQ(ends_at(1e-4, 3.0), 0);
  EXPECT_LT(ends_at(1e-4, 1000.0), 60);
  EXPECT_GT(ends_at(1e-4, 1000.0), 0);
}

TEST(Divergence, SaysWhatToDo) {
  DivergenceGuard guard(1.0);
  Status status = ok();
  for (std::int64_t step = 1; status && step < 100; ++step)
    status = guard.observe(Step{step}, 500, 0.25);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNumeric);
  EXPECT_NE(status.error().message.find("at learning rate 0.25"), std::string::npos);
}

// Long before it ends the training.
TEST(Divergence, AStateIsDoubtfulFromTheFirstSuchLossOn) {
  DivergenceGuard guard(2.0);
  ASSERT_TRUE(guard.observe(Step{1}, 2.0, 0.1));
  EXPECT_FALSE(guard.doubtful());
  ASSERT_TRUE(guard.observe(Step{2}, 21.0, 0.1));
  EXPECT_TRUE(guard.doubtful());
  ASSERT_TRUE(guard.observe(Step{3}, 2.0, 0.1));
  EXPECT_FALSE(guard.doubtful()) << "a single peak passes";
  ASSERT_TRUE(guard.observe(Step{4}, 5000.0, 0.1));
  ASSERT_TRUE(guard.observe(Step{5}, 2.0, 0.1));
  EXPECT_TRUE(guard.doubtful()) << "on average it is too high";
}

}  // namespace
}  // namespace muster::train
