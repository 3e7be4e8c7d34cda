// An update that begins too early can stand, and can be rolled back bit by bit.
#include "muster/parallel/update_ahead.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "muster/optim/optimizer.h"
#include "muster/parallel/state_order.h"
#include "muster/parallel/testing/cut_training.h"

namespace muster::parallel {
namespace {

constexpr double kRate = 0.1;

// Three parameters, their optimizer and gradients of theirs.
struct AheadOf {
  explicit AheadOf(const optim::OptimizerSpec& spec, double average = 0.9) {
    std::vector<optim::OptimizedParameter> named;
    for (int i = 0; i < 3; ++i) {
      weights.push_back(torch::sin(torch::arange(5 + i, torch::kFloat32) + i));
      gradients.push_back(torch::cos(torch::arange(5 + i, torch::kFloat32) - i));
      named.push_back({"p" + std::to_string(i), weights.back()});
    }
    optimizer = optim::create_optimizer(spec, named, {.decay = average}).value();
  }
  std::vector<std::vector<at::Tensor>> written() {
    std::vector<std::vector<at::Tensor>> tensors;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      tensors.push_back({weights[i]});
      for (const optim::StateTensor& state : optimizer->state())
        if (owner_in(state.name) == "p" + std::to_string(i)) tensors[i].push_back(state.tensor);
    }
    return tensors;
  }
  std::vector<at::Tensor> values() {
    std::vector<at::Tensor> all;
    for (const auto& of_one : written())
      for (const at::Tensor& tensor : of_one) all.push_back(tensor.clone());
    return all;
  }
  // Of copies: the optimizer takes their memory for what it likes.
  void update(std::size_t first, double divisor) {
    std::vector<at::Tensor> copies;
    for (std::size_t i = first; i < gradients.size(); ++i) copies.push_back(gradients[i].clone());
    optimizer->update({first, weights.size()}, copies, divisor);
  }
  void whole_step(double divisor) {
    optimizer->begin_step(kRate);
    update(0, divisor);
  }

  std::vector<at::Tensor> weights, gradients;
  std::unique_ptr<optim::Optimizer> optimizer;
};

void expect_bits(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(cut::same_bits(found[i], wanted[i])) << i;
}

// Decided once so many parameters are updated.
std::function<bool()> after(int parameters) {
  return [left = parameters - 1]() mutable { return left-- <= 0; };
}

class UpdateAheadOf : public ::testing::TestWithParam<optim::OptimizerSpec> {};

TEST_P(UpdateAheadOf, HasTheBitsOfAWholeStepWhereItStands) {
  for (const int parameters : {1, 2, 3}) {
    AheadOf plain(GetParam()), early(GetParam());
    UpdateAhead ahead(*early.optimizer, early.written());
    for (int step = 0; step < 2; ++step) {
      plain.whole_step(1);
      ahead.begin(kRate, 1, early.gradients, after(parameters));
      EXPECT_TRUE(ahead.has_begun_with(kRate, 1));
      EXPECT_FALSE(ahead.has_begun_with(kRate, 2));
      const std::size_t updated = ahead.accept();
      EXPECT_EQ(updated, static_cast<std::size_t>(parameters));
      early.update(updated, 1);
      expect_bits(early.values(), plain.values());
    }
    EXPECT_EQ(early.optimizer->steps(), 2);
  }
}

TEST_P(UpdateAheadOf, IsRolledBackToTheBit) {
  AheadOf plain(GetParam()), early(GetParam());
  UpdateAhead ahead(*early.optimizer, early.written());
  plain.whole_step(1);
  early.whole_step(1);
  for (const int parameters : {1, 3}) {
    const auto before = early.values();
    ahead.begin(kRate, 4, early.gradients, after(parameters));
    EXPECT_FALSE(cut::same_bits(early.weights.front(), plain.weights.front())) << "it does update";
    ahead.roll_back();
    EXPECT_FALSE(ahead.has_begun());
    expect_bits(early.values(), before);
    expect_bits(early.gradients, plain.gradients);
    EXPECT_EQ(early.optimizer->steps(), plain.optimizer->steps());
    plain.whole_step(3);
    early.whole_step(3);
    expect_bits(early.values(), plain.values());
  }
}

TEST_P(UpdateAheadOf, WhatIsNoNumberGoesWithIt) {
  AheadOf early(GetParam());
  UpdateAhead ahead(*early.optimizer, early.written());
  const auto before = early.values();
  early.gradients.front().fill_(std::numeric_limits<float>::quiet_NaN());
  ahead.begin(kRate, 1, early.gradients, after(3));
  EXPECT_TRUE(early.weights.front().isnan().all().item<bool>());
  ahead.roll_back();
  expect_bits(early.values(), before);
}

TEST_P(UpdateAheadOf, NothingIsRolledBackWhereNothingHasBegun) {
  AheadOf early(GetParam());
  UpdateAhead ahead(*early.optimizer, early.written());
  early.whole_step(1);
  const auto before = early.values();
  ahead.roll_back();
  expect_bits(early.values(), before);
  EXPECT_EQ(early.optimizer->steps(), 1);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdateAheadOf,
                         ::testing::Values(optim::SgdSpec{.momentum = 0}, optim::SgdSpec{},
                                           optim::AdamWSpec{}, optim::LarsSpec{},
                                           optim::LambSpec{}));

}  // namespace
}  // namespace muster::parallel
