#pragma once
// Gradients of a block against differences of its outputs, in f64. For tests.

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <functional>
#include <string>
#include <vector>

#include "muster/models/block.h"

namespace muster::models {

// Numbers between -1 and 1 without a pattern that a layer could hide an error behind.
inline torch::Tensor wavy(torch::IntArrayRef shape, double phase = 0) {
  const auto count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, torch::kFloat64) * 1.37 + phase).view(shape);
}

// Gives `block` f64 parameters and statistics, none of them zero or one.
inline void fill_in_double(Block& block) {
  double phase = 0.3;
  for (const BlockParameter& parameter : block.parameters()) {
    const torch::Tensor& tensor = parameter.tensor;
    const double mean = parameter.init.kind == InitKind::kOnes ? 1 : 0;
    tensor.set_data(wavy(tensor.sizes(), phase += 1.1) * 0.3 + mean);
  }
  for (const BlockStatistic& statistic : block.statistics())
    statistic.tensor.set_data(statistic.tensor.to(torch::kFloat64));
}

// The auxiliary losses of a block, from what it says in its statistics.
using AuxiliaryLoss = std::function<double(const std::vector<torch::Tensor>& statistics)>;

// What is differentiated: a weighted sum of the block's outputs and its auxiliary losses. The
// latter are only in the value where `auxiliary` computes them, and always in the gradient.
class GradientCheck {
 public:
  GradientCheck(Block& block, torch::Tensor input, AuxiliaryLoss auxiliary)
      : block_(block), input_(std::move(input)), auxiliary_(std::move(auxiliary)) {}

  // Of every parameter and, where it is a floating-point tensor, the input.
  void run() {
    at::set_num_threads(1);  // many small passes: threads would cost more than they bring
    fill_in_double(block_);
    for (const BlockParameter& parameter : block_.parameters())
      add(parameter.name, parameter.tensor);
    if (input_.is_floating_point()) {
      input_ = input_.to(torch::kFloat64).contiguous().requires_grad_();
      add("input", input_);
    }
    const auto gradients = torch::autograd::grad({projected()}, tensors_, {}, std::nullopt, false,
                                                 /*allow_unused=*/true);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const torch::Tensor numeric = numeric_gradient(tensors_[i]);
      const auto gradient = gradients[i].defined() ? gradients[i] : torch::zeros_like(numeric);
      const double apart = (gradient - numeric).abs().max().item<double>();
      EXPECT_LT(apart, 1e-7 * (1 + numeric.abs().max().item<double>())) << names_[i];
      EXPECT_GT(numeric.abs().max().item<double>(), 1e-5) << names_[i] << " has no influence";
    }
  }

 private:
  static constexpr double kStep = 1e-6;
  static constexpr double kAuxiliaryWeight = 3;

  void add(const std::string& name, const torch::Tensor& tensor) {
    names_.push_back(name);
    tensors_.push_back(tensor);
  }

  torch::Tensor projected() {
    std::vector<torch::Tensor> statistics;
    PassContext context{.training = true,
                        .random = RandomStream(1, "gradient check"),
                        .statistics = &statistics,
                        .auxiliary_weight = kAuxiliaryWeight};
    const torch::Tensor output = block_.forward(input_, context);
    const torch::Tensor sum = (output * wavy(output.sizes(), 0.7)).sum();
    return auxiliary_ ? sum + kAuxiliaryWeight * auxiliary_(statistics) : sum;
  }

  // d projected / d element of `tensor`, by central differences.
  torch::Tensor numeric_gradient(const torch::Tensor& tensor) {
    const at::NoGradGuard no_grad;
    torch::Tensor gradient = torch::empty(tensor.sizes(), torch::kFloat64);
    double* value = tensor.data_ptr<double>();
    double* slope = gradient.data_ptr<double>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      const double middle = value[i];
      value[i] = middle + kStep;
      const double above = projected().item<double>();
      value[i] = middle - kStep;
      const double below = projected().item<double>();
      value[i] = middle;
      slope[i] = (above - below) / (2 * kStep);
    }
    return gradient;
  }

  Block& block_;
  torch::Tensor input_;
  AuxiliaryLoss auxiliary_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> tensors_;
};

inline void expect_gradients(Block& block, torch::Tensor input, AuxiliaryLoss auxiliary = {}) {
  GradientCheck(block, std::move(input), std::move(auxiliary)).run();
}

// A block that is one layer.
template <class Layer>
class Alone final : public Block {
 public:
  template <class... Arguments>
  explicit Alone(const Arguments&... arguments) : layer_(*this, arguments...) {}
  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    if constexpr (std::is_invocable_v<const Layer&, const torch::Tensor&>)
      return layer_(input);
    else
      return layer_(input, context);
  }

 private:
  Layer layer_;
};

}  // namespace muster::models
