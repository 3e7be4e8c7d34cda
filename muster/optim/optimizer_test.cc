// Against libtorch's own torch::optim, and the promise that dealing the parameters to threads in
// any ranges changes no bit.

#include "muster/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <thread>

#include "muster/base/check.h"

namespace muster::optim {
namespace {

constexpr std::int64_t kSizes[] = {1, 17, 1000, 40'003, 3};

std::vector<torch::Tensor> start_values() {
  std::vector<torch::Tensor> values;
  for (const auto size : kSizes)
    values.push_back(torch::sin(torch::arange(size, torch::kFloat32) * 0.7f + 1));
  return values;
}

std::vector<torch::Tensor> gradients_of(std::int64_t step) {
  std::vector<torch::Tensor> gradients;
  for (const auto size : kSizes)
    gradients.push_back(torch::cos(torch::arange(size, torch::kFloat32) * (0.3f + step)));
  return gradients;
}

std::vector<OptimizedParameter> named(const std::vector<torch::Tensor>& values) {
  std::vector<OptimizedParameter> parameters;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters.push_back({"p" + std::to_string(i), values[i], i % 2 == 0});
  return parameters;
}

// Five steps, the parameters dealt in `ranges`, each range on a thread of its own.
std::vector<torch::Tensor> run(const OptimizerSpec& spec, const std::vector<ParameterRange>& ranges,
                               double divisor = 1) {
  auto values = start_values();
  auto optimizer = *create_optimizer(spec, named(values));
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto gradients = gradients_of(step);
    optimizer->begin_step(0.05 / (step + 1.0));
    std::vector<std::thread> threads;
    for (const auto range : ranges)
      threads.emplace_back([&, range] {
        optimizer->update(range, std::span(gradients).subspan(range.begin, range.size()), divisor);
      });
    for (auto& thread : threads) thread.join();
  }
  return values;
}

void expect_close(const std::vector<torch::Tensor>& mine,
                  const std::vector<torch::Tensor>& theirs) {
  for (std::size_t i = 0; i < mine.size(); ++i)
    EXPECT_TRUE(torch::allclose(mine[i], theirs[i], 1e-6, 1e-7))
        << i << ": " << (mine[i] - theirs[i]).abs().max();
}

template <class Theirs, class Options>
std::vector<torch::Tensor> run_theirs(Options options) {
  auto values = start_values();
  Theirs optimizer(values, options);
  for (std::int64_t step = 0; step < 5; ++step) {
    const auto gradients = gradients_of(step);
    for (std::size_t i = 0; i < values.size(); ++i) values[i].mutable_grad() = gradients[i];
    static_cast<Options&>(optimizer.param_groups()[0].options()).lr(0.05 / (step + 1.0));
    optimizer.step();
  }
  return values;
}

TEST(Optimizer, SgdIsPyTorchs) {
  using Theirs = torch::optim::SGDOptions;
  const auto theirs = [](Theirs options) { return run_theirs<torch::optim::SGD>(options); };
  expect_close(run(SgdSpec{.momentum = 0}, {{0, 5}}), theirs(Theirs(0.05)));
  expect_close(run(SgdSpec{.momentum = 0.9}, {{0, 5}}), theirs(Theirs(0.05).momentum(0.9)));
  expect_close(run(SgdSpec{.momentum = 0.9, .nesterov = true, .weight_decay = 0.1}, {{0, 5}}),
               theirs(Theirs(0.05).momentum(0.9).nesterov(true).weight_decay(0.1)));
}

TEST(Optimizer, AdamWIsPyTorchs) {
  expect_close(run(AdamWSpec{.beta2 = 0.95, .weight_decay = 0.1}, {{0, 5}}),
               run_theirs<torch::optim::AdamW>(
                   torch::optim::AdamWOptions(0.05).betas({0.9, 0.95}).weight_decay(0.1)));
}

TEST(Optimizer, DealingChangesNoBit) {
  for (const OptimizerSpec& spec : {OptimizerSpec(SgdSpec{.nesterov = true, .weight_decay = 0.1}),
                                    OptimizerSpec(AdamWSpec{})}) {
    at::set_num_threads(1);
    const auto one = run(spec, {{0, 5}}, 3.0);
    at::set_num_threads(2);
    for (const auto& ranges : std::vector<std::vector<ParameterRange>>{
             {{0, 5}}, {{0, 1}, {1, 5}}, {{0, 2}, {2, 3}, {3, 5}}, {{0, 0}, {0, 5}}}) {
      const auto dealt = run(spec, ranges, 3.0);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(torch::equal(one[i], dealt[i]));
    }
    at::set_num_threads(1);
  }
}

TEST(Optimizer, DividesTheGradients) {
  auto values = start_values();
  auto optimizer = *create_optimizer(SgdSpec{.momentum = 0}, named(values));
  const auto before = values[2].clone();
  const auto gradients = gradients_of(1);
  const auto gradient = gradients[2].clone();
  optimizer->begin_step(1);
  optimizer->update({2, 3}, std::span(gradients).subspan(2, 1), 4.0);
  EXPECT_TRUE(torch::equal(values[2], before - gradient / 4));
}

TEST(Optimizer, DecayIsDecoupledAndSparesNormsOnRequest) {
  auto values = start_values();
  const auto before = start_values();
  auto optimizer = *create_optimizer(SgdSpec{.momentum = 0.5,
                                             .weight_decay = 0.1,
                                             .decoupled_decay = true,
                                             .decay_norms_and_biases = false},
                                     named(values));
  auto gradients = gradients_of(1);
  for (auto& gradient : gradients) gradient.zero_();
  optimizer->begin_step(0.5);
  optimizer->update({0, 5}, gradients);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE(torch::allclose(values[i], i % 2 == 0 ? before[i] * 0.95 : before[i])) << i;
  for (const auto& state : optimizer->state())
    EXPECT_TRUE(torch::equal(state.tensor, torch::zeros_like(state.tensor))) << state.name;
}

// Saved state and step count, put into a new optimizer, continue bit for bit.
TEST(Optimizer, StateContinues) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec(SgdSpec{}), OptimizerSpec(AdamWSpec{.weight_decay = 0.1})}) {
    const auto whole = run(spec, {{0, 5}});
    auto values = start_values();
    std::unique_ptr<Optimizer> optimizer = *create_optimizer(spec, named(values));
    for (std::int64_t step = 0; step < 5; ++step) {
      if (step == 2) {
        auto next = *create_optimizer(spec, named(values));
        const auto saved = optimizer->state(), into = next->state();
        ASSERT_EQ(saved.size(), into.size());
        for (std::size_t i = 0; i < saved.size(); ++i) into[i].tensor.copy_(saved[i].tensor);
        next->set_steps(optimizer->steps());
        optimizer = std::move(next);
      }
      optimizer->begin_step(0.05 / (step + 1.0));
      optimizer->update({0, 5}, gradients_of(step));
    }
    EXPECT_EQ(optimizer->steps(), 5);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(torch::equal(whole[i], values[i]));
  }
}

TEST(Optimizer, NamesItsState) {
  auto sgd = *create_optimizer(SgdSpec{}, named(start_values()));
  EXPECT_EQ(sgd->state()[1].name, "optimizer/p1/momentum");
  auto adamw = *create_optimizer(AdamWSpec{}, named(start_values()));
  EXPECT_EQ(adamw->state()[2].name, "optimizer/p1/exp_avg");
  EXPECT_EQ(adamw->state()[3].name, "optimizer/p1/exp_avg_sq");
}

TEST(Optimizer, RefusesWhatDoesNotFit) {
  const auto bad = create_optimizer(SgdSpec{.momentum = 1.5}, {});
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, testing::HasSubstr("momentum is 1.5"));
  EXPECT_FALSE(create_optimizer(SgdSpec{.momentum = 0, .nesterov = true}, {}));
  EXPECT_FALSE(create_optimizer(AdamWSpec{.epsilon = 0}, {}));
  auto optimizer = *create_optimizer(SgdSpec{}, named(start_values()));
  optimizer->begin_step(0.1);
  const auto gradients = gradients_of(0);
  EXPECT_THROW(optimizer->update({0, 5}, std::span(gradients).first(4)), LogicFault);
  EXPECT_THROW(optimizer->update({0, 1}, std::span(gradients).subspan(1, 1)), LogicFault);
  EXPECT_THROW(optimizer->update({5, 6}, std::span(gradients).first(1)), LogicFault);
}

}  // namespace
}  // namespace muster::optim
