#include "muster/models/flop_counter.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/linear.h>

#include <functional>
#include <thread>

namespace muster::models {
namespace {

double counted(const std::function<void()>& work) {
  const FlopCounter counter;
  work();
  return counter.counted();
}

at::Tensor leaf(at::IntArrayRef sizes) { return at::ones(sizes).set_requires_grad(true); }

void backward(const at::Tensor& output) {
  torch::autograd::backward({output}, {at::ones_like(output)});
}

TEST(FlopCounter, CountsProductsOfMatrices) {
  const at::Tensor a = at::ones({3, 5}), b = at::ones({5, 7}), bias = at::ones({7});
  EXPECT_EQ(counted([&] { at::mm(a, b); }), 2 * 3 * 5 * 7);
  EXPECT_EQ(counted([&] { at::addmm(bias, a, b); }), 2 * 3 * 5 * 7);
  const at::Tensor many = at::ones({4, 3, 5}), others = at::ones({4, 5, 7});
  EXPECT_EQ(counted([&] { at::bmm(many, others); }), 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(counted([&] { at::matmul(many, others); }), 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(counted([&] { at::baddbmm(at::ones({4, 3, 7}), many, others); }), 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(counted([&] { (a + 1).relu().sum(); }), 0);
}

// Backward: one product for the gradient of the weight, one for that of the input if it is wanted.
TEST(FlopCounter, CountsWhatBackwardNeeds) {
  const at::Tensor weight = leaf({7, 5}), bias = leaf({7});
  const double product = 2 * 3 * 5 * 7;
  const auto pass = [&](const at::Tensor& input) { backward(torch::linear(input, weight, bias)); };
  EXPECT_EQ(counted([&] { pass(leaf({3, 5})); }), 3 * product);
  EXPECT_EQ(counted([&] { pass(at::ones({3, 5})); }), 2 * product);
}

TEST(FlopCounter, CountsConvolutions) {
  const double same = 2.0 * 2 * (8 * 8) * (6 * 3 * 3 * 3);
  const at::Tensor weight = leaf({6, 3, 3, 3});
  const auto pass = [&](const at::Tensor& input, int stride) {
    return torch::conv2d(input, weight, {}, stride, 1);
  };
  EXPECT_EQ(counted([&] { pass(at::ones({2, 3, 8, 8}), 1); }), same);
  EXPECT_EQ(counted([&] { pass(at::ones({2, 3, 8, 8}), 2); }), same / 4);
  EXPECT_EQ(counted([&] { pass(at::ones({2, 3, 7, 7}), 2); }), same / 4);  // rounded up
  EXPECT_EQ(counted([&] { backward(pass(leaf({2, 3, 8, 8}), 1)); }), 3 * same);
  EXPECT_EQ(counted([&] { backward(pass(at::ones({2, 3, 8, 8}), 1)); }), 2 * same);
  EXPECT_EQ(counted([] {
              torch::conv2d(at::ones({2, 6, 8, 8}), at::ones({6, 1, 3, 3}), {}, 1, 1, 1, 6);
            }),
            2.0 * 2 * (8 * 8) * (6 * 3 * 3));
  // Spread over 16 × 16 places, but the weight meets each of the 8 × 8.
  EXPECT_EQ(counted([] {
              torch::conv_transpose2d(at::ones({2, 3, 8, 8}), at::ones({3, 6, 3, 3}), {}, 2, 1, 1);
            }),
            same);
}

TEST(FlopCounter, CountsAttentionWhoeverComputesIt) {
  const at::Tensor query = leaf({2, 3, 16, 8}), key = leaf({2, 3, 16, 8}),
                   value = leaf({2, 3, 16, 8});
  const double both = 2.0 * (2 * 3) * (16 * 16) * (8 + 8);
  const auto attend = [&](double dropout) {
    return at::scaled_dot_product_attention(query, key, value, {}, dropout, /*is_causal=*/true);
  };
  EXPECT_EQ(counted([&] { attend(0); }), both);
  EXPECT_EQ(counted([&] { backward(attend(0)); }), 3 * both);
  EXPECT_EQ(counted([&] { backward(attend(0.5)); }), 3 * both);  // as products
}

TEST(FlopCounter, KnowsItsOwnThreadAndLife) {
  const at::Tensor a = at::ones({3, 3});
  const FlopCounter counter;
  std::thread([&] { at::mm(a, a); }).join();
  EXPECT_EQ(counter.counted(), 0);
  at::mm(a, a);
  EXPECT_EQ(counter.counted(), 54);
}

}  // namespace
}  // namespace muster::models
