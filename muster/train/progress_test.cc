#include "muster/train/progress.h"

#include <gtest/gtest.h>

#include <limits>

namespace muster::train {
namespace {

constexpr bool kHigher = true, kLower = false;  // is better
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The step of the best evaluation, of which the first is at step 1; 0: none.
std::int64_t best_of(bool higher, const std::vector<double>& values) {
  Progress progress;
  for (const double value : values) {
    progress.committed = next(progress.committed);
    note_evaluation(progress, "eval/loss", higher, value);
  }
  return progress.best ? to_int(progress.best->step) : 0;
}

TEST(Progress, TheFirstOfEqualEvaluationsIsTheBest) {
  EXPECT_EQ(best_of(kLower, {3, 1, 2, 1}), 2);
  EXPECT_EQ(best_of(kHigher, {0.3, 0.1, 0.4, 0.4}), 3);
}

TEST(Progress, AnEvaluationThatIsNotFiniteIsNoGain) {
  EXPECT_EQ(best_of(kLower, {kNaN, 5, kNaN, 4}), 4);
  EXPECT_EQ(best_of(kLower, {kInfinity, -kInfinity}), 0);
  EXPECT_EQ(best_of(kHigher, {kNaN, 0.1, kInfinity}), 2);
}

TEST(Progress, EvaluationsWithoutGainAreCountedFromTheLastOne) {
  Progress progress;
  std::vector<std::int64_t> counted;
  for (const double value : {2.0, 2.0, kNaN, 1.0, 1.5}) {
    note_evaluation(progress, "eval/loss", kLower, value);
    counted.push_back(progress.evaluations_without_gain);
  }
  EXPECT_EQ(counted, (std::vector<std::int64_t>{0, 1, 2, 0, 1}));
}

TEST(Progress, TheBestOfAnotherMetricIsForgotten) {
  Progress progress;
  note_evaluation(progress, "eval/accuracy", kHigher, 0.9);
  note_evaluation(progress, "eval/accuracy", kHigher, 0.8);
  Progress resumed = progress_from_json(to_json(progress)).value();
  EXPECT_FALSE(forget_other_best(resumed, "eval/accuracy"));
  EXPECT_TRUE(forget_other_best(resumed, "eval/loss"));
  EXPECT_FALSE(resumed.best);
  EXPECT_EQ(resumed.evaluations_without_gain, 0);
}

TEST(Progress, ComesBackFromJsonWithTheSameBits) {
  Progress progress;
  progress.committed = Step{70};
  progress.cursor = {.epoch = 2, .position = 33, .samples_seen = 1'234'567};
  progress.optimizer_steps = 69;
  progress.owes_evaluation = true;
  progress.first_loss = 2.0 / 3;
  progress.loss_scale = optim::LossScale{.scale = 1024, .good_steps = 7, .stuck = 1};
  for (const double value : {kNaN, 0.1}) {  // without a best one, and with
    note_evaluation(progress, "eval/loss", kLower, value);
    const auto back = progress_from_json(to_json(progress));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(to_json(*back), to_json(progress));
    EXPECT_EQ(back->first_loss, progress.first_loss);
    EXPECT_EQ(back->cursor.samples_seen, 1'234'567);
    EXPECT_TRUE(back->owes_evaluation);
    EXPECT_EQ(back->best.has_value(), progress.best.has_value());
  }
}

TEST(Progress, WhatIsNoneIsRefused) {
  for (const char* text : {"", "{}", "[]", "{\"step\": \"many\"}"})
    EXPECT_EQ(progress_from_json(text).error().code, ErrorCode::kCorrupt) << text;
}

}  // namespace
}  // namespace muster::train
