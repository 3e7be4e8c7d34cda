#include "muster/models/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "muster/models/model.h"

namespace muster::models {
namespace {

torch::Tensor squares(const torch::Tensor& outputs, const torch::Tensor& targets) {
  return (outputs - targets).square();
}

double sum(const Measure& measure, const torch::Tensor& outputs, const torch::Tensor& targets) {
  return sum_of(measure, "training.loss test", outputs, targets).item<double>();
}

TEST(Measure, AddsUpOneValueForEachTarget) {
  EXPECT_EQ(sum(squares, torch::full({4, 2}, 3.0), torch::ones({4, 2})), 4 * 2 * 4.0);
}

// The mean over samples is then that over targets.
TEST(Measure, OneValueForEachSampleCountsForAllItsTargets) {
  const auto each = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return squares(outputs, targets).mean(1);
  };
  EXPECT_EQ(sum(each, torch::full({4, 2}, 3.0), torch::ones({4, 2})), 4 * 2 * 4.0);
}

TEST(Measure, RefusesWhatIsReducedOrBroadcast) {
  const auto reduced = [](const torch::Tensor& outputs, const torch::Tensor& targets) {
    return squares(outputs, targets).mean();
  };
  EXPECT_THROW(sum(reduced, torch::ones({4, 1}), torch::ones({4, 1})), std::invalid_argument);
  try {
    (void)sum(squares, torch::ones({4, 1}), torch::ones({4}));
    FAIL() << "took [4, 4] for four targets";
  } catch (const std::invalid_argument& told) {
    EXPECT_THAT(told.what(), ::testing::HasSubstr("training.loss test gives values of shape [4, 4] "
                                                  "for outputs [4, 1] and targets [4]"));
  }
}

TEST(Measure, IsAModelsLossInTrainingAndEvaluation) {
  const auto build = [] {
    const auto linear = std::make_shared<torch::nn::LinearImpl>(3, 1);
    return std::vector<NamedBlock>{
        {"model", std::make_shared<ModuleBlock<torch::nn::LinearImpl>>(linear)}};
  };
  Model model("own", build);
  model.learn_by(loss_of(squares, "squares"));
  model.measure_with({{"error", [](const torch::Tensor& outputs, const torch::Tensor& targets) {
                         return (outputs - targets).abs();
                       }}});
  const auto outputs = torch::full({2, 1}, 3.0).requires_grad_(), targets = torch::ones({2, 1});
  const auto replica = model.replicate();
  const LossSum trained = replica->loss_sum(outputs, targets);
  const LossSum evaluated = replica->evaluation_loss_sum(outputs, targets);
  EXPECT_EQ(trained.sum.item<double>(), 8);
  EXPECT_TRUE(trained.sum.requires_grad());
  EXPECT_TRUE(trained.measured.empty());
  EXPECT_EQ(evaluated.sum.item<double>(), 8);
  EXPECT_EQ(evaluated.targets, 2);
  EXPECT_EQ(evaluated.measured, std::vector<double>{4});
  EXPECT_FALSE(model.parameters()[1].decays) << "a bias";
}

}  // namespace
}  // namespace muster::models
