// Against libtorch's own torch::optim, and the promise that dealing the parameters to threads in
// any ranges changes no bit.

#include "muster/optim/optimizer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim.h>
#include <torch/types.h>

#include <cmath>
#include <thread>

#include "muster/base/check.h"
#include "muster/optim/norm_scaled.h"

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

// LARS and LAMB as their papers have them, operation by operation in double.
double norm_of(const torch::Tensor& tensor) { return tensor.norm().item<double>(); }

std::vector<torch::Tensor> lars_by_formula(const LarsSpec& spec) {
  auto values = start_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool scales = i % 2 == 0 || spec.scale_norms_and_biases;
    const double decay = scales ? spec.weight_decay : 0;
    auto w = values[i].to(torch::kFloat64), v = torch::zeros_like(w);
    for (std::int64_t step = 0; step < 5; ++step) {
      const auto g = gradients_of(step)[i].to(torch::kFloat64);
      const double local =
          scales ? spec.trust_coefficient * norm_of(w) / (norm_of(g) + decay * norm_of(w)) : 1;
      v = spec.momentum * v + 0.05 / (step + 1.0) * local * (g + decay * w);
      w = w - v;
    }
    values[i] = w.to(torch::kFloat32);
  }
  return values;
}

std::vector<torch::Tensor> lamb_by_formula(const LambSpec& spec) {
  auto values = start_values();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool scales = i % 2 == 0 || spec.scale_norms_and_biases;
    auto w = values[i].to(torch::kFloat64), m = torch::zeros_like(w), v = torch::zeros_like(w);
    for (std::int64_t step = 0; step < 5; ++step) {
      const auto g = gradients_of(step)[i].to(torch::kFloat64);
      m = spec.beta1 * m + (1 - spec.beta1) * g;
      v = spec.beta2 * v + (1 - spec.beta2) * g * g;
      const auto mean = m / (1 - std::pow(spec.beta1, step + 1.0));
      const auto variance = v / (1 - std::pow(spec.beta2, step + 1.0));
      const auto r = mean / (variance.sqrt() + spec.epsilon) + (scales ? spec.weight_decay : 0) * w;
      const double ratio = scales ? norm_of(w) / norm_of(r) : 1;
      w = w - 0.05 / (step + 1.0) * ratio * r;
    }
    values[i] = w.to(torch::kFloat32);
  }
  return values;
}

TEST(Optimizer, LarsIsThePapers) {
  for (const bool all : {true, false}) {
    const LarsSpec spec{
        .weight_decay = 0.1, .trust_coefficient = 0.02, .scale_norms_and_biases = all};
    expect_close(run(spec, {{0, 5}}), lars_by_formula(spec));
  }
  expect_close(run(LarsSpec{.momentum = 0}, {{0, 5}}), lars_by_formula({.momentum = 0}));
}

TEST(Optimizer, LambIsThePapers) {
  for (const bool all : {true, false}) {
    const LambSpec spec{.beta2 = 0.99, .weight_decay = 0.1, .scale_norms_and_biases = all};
    expect_close(run(spec, {{0, 5}}), lamb_by_formula(spec));
  }
}

// A layer that starts at zero must be able to leave it.
TEST(Optimizer, TrustRatioOfNothingIsOne) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec(LarsSpec{.momentum = 0}), OptimizerSpec(LambSpec{.epsilon = 1e-30})}) {
    const auto zeros = torch::zeros({3}), still = torch::ones({3});
    auto optimizer = *create_optimizer(spec, {{"zeros", zeros}, {"still", still}});
    optimizer->begin_step(0.5);
    optimizer->update({0, 2}, std::vector{torch::ones({3}), torch::zeros({3})});
    EXPECT_TRUE(torch::allclose(zeros, torch::full({3}, -0.5))) << zeros;
    EXPECT_TRUE(still.isfinite().all().item<bool>());
  }
}

// Each half of a tensor's rows with an optimizer of its own, which hears of the other's sums.
TEST(NormScaled, PartsHaveTheBitsOfTheWhole) {
  for (const OptimizerSpec& spec : {OptimizerSpec(LarsSpec{.weight_decay = 0.1}),
                                    OptimizerSpec(LambSpec{.weight_decay = 0.1})}) {
    const auto whole = torch::sin(torch::arange(30 * 640, torch::kFloat32)).view({30, 640});
    const auto parts = whole.clone();
    const auto upper = parts.narrow(0, 0, 14), lower = parts.narrow(0, 14, 16);
    auto expected = *create_optimizer(spec, {{"p", whole}});
    auto first = *create_optimizer(spec, {{"p", upper}});
    auto second = *create_optimizer(spec, {{"p", lower}});
    for (std::int64_t step = 0; step < 3; ++step) {
      const auto gradient = torch::cos(torch::arange(30 * 640, torch::kFloat32) * (step + 0.3f));
      expected->begin_step(0.1);
      expected->update({0, 1}, std::vector{gradient.view({30, 640}).clone()}, 3);
      const auto mine = gradient.view({30, 640}).narrow(0, 0, 14).clone();
      const auto theirs = gradient.view({30, 640}).narrow(0, 14, 16).clone();
      first->begin_step(0.1);
      second->begin_step(0.1);
      first->norm_scaled()->measure({0, 1}, std::vector{mine}, 3);
      second->norm_scaled()->measure({0, 1}, std::vector{theirs}, 3);
      NormSquares sum;
      for (Optimizer* part : {first.get(), second.get()})
        for (const NormSquares& cell : part->norm_scaled()->squares(0)) {
          sum.weights += cell.weights;
          sum.direction += cell.direction;
        }
      first->norm_scaled()->finish({0, 1}, std::vector{mine}, std::vector{sum});
      second->norm_scaled()->finish({0, 1}, std::vector{theirs}, std::vector{sum});
    }
    EXPECT_TRUE(torch::equal(whole, parts));
    EXPECT_GT(first->norm_scaled()->squares(0).size(), 1);
  }
}

TEST(Optimizer, KeepsAnAverageOfTheWeights) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec(SgdSpec{.momentum = 0}), OptimizerSpec(LambSpec{})})
    for (const bool warmup : {true, false}) {
      auto values = start_values();
      auto optimizer = *create_optimizer(spec, named(values), {.decay = 0.35, .warmup = warmup});
      std::vector<torch::Tensor> expected;
      for (const auto& value : values) expected.push_back(value.to(torch::kFloat64));
      for (std::int64_t step = 1; step <= 5; ++step) {
        optimizer->begin_step(0.1);
        optimizer->update({0, 5}, gradients_of(step));
        const double ramp = (1.0 + step) / (10.0 + step);  // 0.18, 0.25, 0.31, 0.36, …
        const double decay = warmup && ramp < 0.35 ? ramp : 0.35;
        for (std::size_t i = 0; i < values.size(); ++i)
          expected[i] = decay * expected[i] + (1 - decay) * values[i].to(torch::kFloat64);
      }
      ASSERT_EQ(optimizer->average().size(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_TRUE(
            torch::allclose(optimizer->average()[i].to(torch::kFloat64), expected[i], 1e-5, 1e-6));
        EXPECT_FALSE(torch::equal(optimizer->average()[i], values[i]));
      }
      EXPECT_EQ(optimizer->state().back().name, "optimizer/p4/ema");
      EXPECT_TRUE(optimizer->state().back().tensor.is_same(optimizer->average().back()));
    }
  EXPECT_FALSE(create_optimizer(SgdSpec{}, {}, {.decay = 1}));
}

// Each parameter as if it were alone with a rate and decay of its own.
TEST(Optimizer, ParametersMayHaveRatesAndDecaysOfTheirOwn) {
  const auto with = [](const OptimizerSpec& spec, double rate,
                       const std::vector<OptimizedParameter>& parameters, ParameterRange range) {
    auto optimizer = *create_optimizer(spec, parameters);
    for (std::int64_t step = 0; step < 5; ++step) {
      optimizer->begin_step(rate);
      const auto gradients = gradients_of(step);
      optimizer->update(range, std::span(gradients).subspan(range.begin, range.size()));
    }
  };
  for (const auto& [spec, decaying] :
       {std::pair<OptimizerSpec, OptimizerSpec>(AdamWSpec{.weight_decay = 0.1},
                                                AdamWSpec{.weight_decay = 0.3}),
        {SgdSpec{.weight_decay = 0.1}, SgdSpec{.weight_decay = 0.3}},
        {LarsSpec{.weight_decay = 0.1}, LarsSpec{.weight_decay = 0.3}},
        {LambSpec{.weight_decay = 0.1}, LambSpec{.weight_decay = 0.3}}}) {
    auto values = start_values(), expected = start_values();
    auto mixed = named(values);
    mixed[1].rate_factor = 0.25;
    mixed[2].weight_decay = 0.3;
    with(spec, 0.5, mixed, {0, 5});
    with(spec, 0.5, named(expected), {0, 1});
    with(spec, 0.125, named(expected), {1, 2});
    with(decaying, 0.5, named(expected), {2, 3});
    with(spec, 0.5, named(expected), {3, 5});
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(torch::equal(values[i], expected[i])) << spec.index() << ": " << i;
  }
}

TEST(Optimizer, DealingChangesNoBit) {
  for (const OptimizerSpec& spec :
       {OptimizerSpec(SgdSpec{.nesterov = true, .weight_decay = 0.1}), OptimizerSpec(AdamWSpec{}),
        OptimizerSpec(LarsSpec{}), OptimizerSpec(LambSpec{})}) {
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
       {OptimizerSpec(SgdSpec{}), OptimizerSpec(AdamWSpec{.weight_decay = 0.1}),
        OptimizerSpec(LarsSpec{}), OptimizerSpec(LambSpec{.weight_decay = 0.1})}) {
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
  EXPECT_THAT(bad.error().message, ::testing::HasSubstr("momentum is 1.5"));
  EXPECT_FALSE(create_optimizer(SgdSpec{.momentum = 0, .nesterov = true}, {}));
  EXPECT_FALSE(create_optimizer(AdamWSpec{.epsilon = 0}, {}));
  EXPECT_FALSE(create_optimizer(LambSpec{.beta2 = 1}, {}));
  EXPECT_FALSE(create_optimizer(LarsSpec{.trust_coefficient = 0}, {}));
  auto optimizer = *create_optimizer(SgdSpec{}, named(start_values()));
  optimizer->begin_step(0.1);
  const auto gradients = gradients_of(0);
  EXPECT_THROW(optimizer->update({0, 5}, std::span(gradients).first(4)), LogicFault);
  EXPECT_THROW(optimizer->update({0, 1}, std::span(gradients).subspan(1, 1)), LogicFault);
  EXPECT_THROW(optimizer->update({5, 6}, std::span(gradients).first(1)), LogicFault);
}

}  // namespace
}  // namespace muster::optim
