// One fused operation against batch norm, addition and ReLU one after the other, in f64.

#include "muster/models/norm_relu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace muster::models {
namespace {

constexpr double kEpsilon = 1e-5;

torch::Tensor image(std::int64_t n, std::int64_t channels, std::int64_t height, double phase) {
  return torch::sin(torch::arange(n * channels * height * height, torch::kFloat64) * 1.7 + phase)
      .view({n, channels, height, height});
}

struct Inputs {
  torch::Tensor input, weight, bias, skip, seed;
  std::vector<torch::Tensor> leaves() const {
    std::vector<torch::Tensor> leaves{input, weight, bias};
    if (skip.defined()) leaves.push_back(skip);
    return leaves;
  }
};

Inputs inputs_of(std::int64_t n, std::int64_t channels, std::int64_t height, bool skips) {
  const auto of = torch::arange(channels, torch::kFloat64);
  return {image(n, channels, height, 0) * 3 + 2 * torch::sin(of).view({1, -1, 1, 1}),
          1 + torch::cos(of), torch::sin(of) / 2,
          skips ? image(n, channels, height, 0.3) : torch::Tensor(),
          image(n, channels, height, 0.7)};
}

Inputs as_f32(const Inputs& of) {
  const auto last = [](const torch::Tensor& tensor) {
    return tensor.defined()
               ? tensor.detach().to(torch::kFloat32).contiguous(torch::MemoryFormat::ChannelsLast)
               : tensor;
  };
  return {last(of.input), of.weight.detach().to(torch::kFloat32),
          of.bias.detach().to(torch::kFloat32), last(of.skip), last(of.seed)};
}

struct Found {
  torch::Tensor output, mean, variance;
  std::vector<torch::Tensor> gradients;
};

template <class Forward>
Found run(const Inputs& inputs, const Forward& forward) {
  for (torch::Tensor leaf : inputs.leaves()) leaf.requires_grad_();
  Found found;
  found.mean = torch::zeros_like(inputs.weight.detach());
  found.variance = torch::zeros_like(found.mean);
  found.output = forward(inputs, found);
  found.output.backward(inputs.seed);
  for (const torch::Tensor& leaf : inputs.leaves()) found.gradients.push_back(leaf.grad());
  return found;
}

Found one_by_one(const Inputs& inputs) {
  return run(inputs, [](const Inputs& in, const Found& found) {
    auto output = torch::batch_norm(in.input, in.weight, in.bias, found.mean, found.variance, true,
                                    1.0, kEpsilon, false);
    if (in.skip.defined()) output = output + in.skip;
    return output.relu();
  });
}

Found fused(const Inputs& inputs) {
  return run(inputs, [](const Inputs& in, const Found& found) {
    const NormRelu of{.input = in.input,
                      .weight = in.weight,
                      .bias = in.bias,
                      .skip = in.skip,
                      .epsilon = kEpsilon,
                      .mean = found.mean,
                      .variance = found.variance};
    EXPECT_TRUE(can_fuse(of));
    return norm_relu(of);
  });
}

void expect_close(const torch::Tensor& found, const torch::Tensor& expected, const char* what) {
  const double scale = 1 + expected.abs().max().item<double>();
  const double error = (found.to(torch::kFloat64) - expected).abs().max().item<double>();
  EXPECT_LE(error, 2e-6 * scale) << what;
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // n, channels, extent

class NormReluOf : public ::testing::TestWithParam<std::tuple<Shape, bool>> {};

TEST_P(NormReluOf, IsBatchNormAdditionAndRelu) {
  const auto& [shape, skips] = GetParam();
  const auto& [n, channels, extent] = shape;
  const Inputs inputs = inputs_of(n, channels, extent, skips);
  const Found expected = one_by_one(inputs);
  const Found found = fused(as_f32(inputs));
  expect_close(found.output, expected.output, "output");
  expect_close(found.mean, expected.mean, "mean");
  expect_close(found.variance, expected.variance, "variance");
  ASSERT_EQ(found.gradients.size(), expected.gradients.size());
  const char* names[] = {"input", "weight", "bias", "skip"};
  for (std::size_t i = 0; i < found.gradients.size(); ++i)
    expect_close(found.gradients[i], expected.gradients[i], names[i]);
}

// Each product is rounded before it is added to something, whatever instructions the processor has
// for both at once, as those with AVX-512 have: the bits would be other ones there. Moments are
// exact here.
TEST(NormRelu, RoundsAsOnAnyProcessor) {
  constexpr std::int64_t kPixels = 64, kChannels = 21;
  const auto value = [](std::int64_t pixel) {
    return static_cast<float>((pixel % 2 == 0 ? 1 : -1) * (1 + pixel / 2 % 7)) / 4;
  };
  Inputs inputs = as_f32(inputs_of(1, kChannels, 8, false));
  double square = 0;
  for (std::int64_t p = 0; p < kPixels; ++p) {
    inputs.input.flatten(2).select(2, p).fill_(value(p));
    square += double{value(p)} * double{value(p)};
  }
  const Found found = fused(inputs);
  const auto inverse = static_cast<float>(1 / std::sqrt(square / kPixels + kEpsilon));
  for (std::int64_t c = 0; c < kChannels; ++c) {
    const float scale = inputs.weight[c].item<float>() * inverse;
    for (std::int64_t p = 0; p < kPixels; ++p) {
      const float product = value(p) * scale;
      const float sum = product + inputs.bias[c].item<float>();
      EXPECT_EQ(found.output.flatten(2)[0][c][p].item<float>(), sum < 0 ? 0 : sum)
          << c << ", " << p;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, NormReluOf,
                         ::testing::Combine(::testing::Values(Shape{1, 1, 2}, Shape{2, 3, 1},
                                                              Shape{3, 16, 7}, Shape{5, 37, 5},
                                                              Shape{16, 64, 14}),
                                            ::testing::Bool()));

Inputs small() { return as_f32(inputs_of(2, 16, 4, true)); }

// A single value far from the others must not cost the rest its digits.
TEST(NormRelu, KeepsItsDigitsFarFromZero) {
  Inputs inputs = inputs_of(8, 16, 14, false);
  inputs.input = (inputs.input + 300).contiguous();
  inputs.input.view({-1})[0] = 0;
  const Inputs floats = as_f32(inputs);
  inputs.input =
      floats.input.to(torch::kFloat64).detach();  // what is rounded already is no fault of it
  expect_close(fused(floats).variance, one_by_one(inputs).variance, "variance");
}

TEST(NormRelu, HidesNothingThatIsNotFinite) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Inputs inputs = small();
    inputs.input.data_ptr<float>()[5] = static_cast<float>(bad);
    const Found found = fused(inputs);
    EXPECT_FALSE(std::isfinite(found.output.sum().item<double>()));
    EXPECT_FALSE(std::isfinite(found.gradients[1].sum().item<double>()));
  }
}

TEST(NormRelu, LeavesOutWhatNobodyAsksFor) {
  const Inputs inputs = small();
  const Found all = fused(inputs);
  Inputs fewer = small();
  fewer.weight.requires_grad_();
  const NormRelu of{.input = fewer.input,
                    .weight = fewer.weight,
                    .bias = fewer.bias,
                    .skip = fewer.skip,
                    .epsilon = kEpsilon,
                    .mean = torch::empty({16}),
                    .variance = torch::empty({16})};
  norm_relu(of).backward(fewer.seed);
  EXPECT_TRUE(fewer.weight.grad().equal(all.gradients[1]));
  EXPECT_FALSE(fewer.input.grad().defined());
}

TEST(NormRelu, IsForFloatsWithChannelsLast) {
  NormRelu of;
  of.input = small().input;
  of.weight = small().weight;
  EXPECT_TRUE(can_fuse(of));
  NormRelu other = of;
  other.input = of.input.contiguous();
  EXPECT_FALSE(can_fuse(other));
  other.input = of.input.to(torch::kBFloat16);
  EXPECT_FALSE(can_fuse(other));
  other = of;
  other.skip = of.input.contiguous();
  EXPECT_FALSE(can_fuse(other));
  other = of;
  other.input = torch::zeros({1, 16, 1, 1}).contiguous(torch::MemoryFormat::ChannelsLast);
  EXPECT_FALSE(can_fuse(other));
}

}  // namespace
}  // namespace muster::models
