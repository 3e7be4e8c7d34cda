#pragma once
// Gradients of a block against differences of its outputs, in f64. For tests.

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

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

// What is differentiated: a weighted sum of the block's outputs.
inline torch::Tensor projected(Block& block, const torch::Tensor& input) {
  PassContext context{.training = true, .random = RandomStream(1, "gradient check")};
  const torch::Tensor output = block.forward(input, context);
  return (output * wavy(output.sizes(), 0.7)).sum();
}

// d projected / d element of `tensor`, by central differences.
inline torch::Tensor numeric_gradient(Block& block, const torch::Tensor& input,
                                      const torch::Tensor& tensor) {
  constexpr double kStep = 1e-6;
  const at::NoGradGuard no_grad;
  torch::Tensor gradient = torch::empty(tensor.sizes(), torch::kFloat64);
  double* value = tensor.data_ptr<double>();
  double* slope = gradient.data_ptr<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const double middle = value[i];
    value[i] = middle + kStep;
    const double above = projected(block, input).item<double>();
    value[i] = middle - kStep;
    const double below = projected(block, input).item<double>();
    value[i] = middle;
    slope[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

// Of every parameter and, where it is a floating-point tensor, the input.
inline void expect_gradients(Block& block, torch::Tensor input) {
  fill_in_double(block);
  std::vector<std::string> names;
  std::vector<torch::Tensor> tensors;
  for (const BlockParameter& parameter : block.parameters()) {
    names.push_back(parameter.name);
    tensors.push_back(parameter.tensor);
  }
  if (input.is_floating_point()) {
    input = input.to(torch::kFloat64).contiguous().requires_grad_();
    names.emplace_back("input");
    tensors.push_back(input);
  }
  const auto gradients = torch::autograd::grad({projected(block, input)}, tensors);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const torch::Tensor numeric = numeric_gradient(block, input, tensors[i]);
    const double apart = (gradients[i] - numeric).abs().max().item<double>();
    EXPECT_LT(apart, 1e-7 * (1 + numeric.abs().max().item<double>())) << names[i];
    EXPECT_GT(numeric.abs().max().item<double>(), 1e-4) << names[i] << " has no influence";
  }
}

}  // namespace muster::models
