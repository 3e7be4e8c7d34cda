// What a pass in 16 bits promises: only products are of 16 bits, weights are those of the moment,
// and nothing of it outlives the pass or reaches another thread.

#include "muster/models/precision.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "muster/models/create.h"
#include "muster/models/testing/one_pass.h"

namespace muster::models {
namespace {

torch::ScalarType narrow(Precision precision) {
  return precision == Precision::kF16 ? torch::kHalf : torch::kBFloat16;
}

double norm_of(const std::vector<torch::Tensor>& tensors) {
  double squares = 0;
  for (const auto& tensor : tensors)
    squares += tensor.to(torch::kDouble).square().sum().item<double>();
  return std::sqrt(squares);
}

double apart(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  std::vector<torch::Tensor> differences;
  for (std::size_t i = 0; i < a.size(); ++i) differences.push_back(a[i] - b[i]);
  return norm_of(differences) / norm_of(a);
}

class MixedPrecision : public testing::TestWithParam<PassCase> {};

TEST_P(MixedPrecision, ComputesProductsIn16BitsAndTheRestInF32) {
  const auto& [spec, precision, frozen] = GetParam();
  const auto model = make(GetParam());
  const Pass full = run(*model, spec, Precision::kF32);
  const Pass mixed = run(*model, spec, precision);
  EXPECT_EQ(full.logits.scalar_type(), torch::kFloat);
  EXPECT_EQ(mixed.logits.scalar_type(), narrow(precision));
  EXPECT_EQ(mixed.loss.sum.scalar_type(), torch::kFloat);
  for (const auto& gradient : mixed.gradients) EXPECT_EQ(gradient.scalar_type(), torch::kFloat);
  for (const auto& tensor : mixed.statistics) EXPECT_EQ(tensor.scalar_type(), torch::kFloat);
  EXPECT_NEAR(mixed.loss.sum.item<double>(), full.loss.sum.item<double>(),
              0.01 * full.loss.sum.item<double>());
  const double difference = apart(full.gradients, mixed.gradients);
  EXPECT_LT(difference, 0.1);
  EXPECT_GT(difference, 0);
}

// As after an optimizer's step.
TEST_P(MixedPrecision, SeesTheWeightsOfTheMoment) {
  const auto& [spec, precision, frozen] = GetParam();
  const auto model = make(GetParam()), fresh = make(GetParam());
  run(*model, spec, precision);
  for (const auto& changed : {model.get(), fresh.get()}) {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : changed->parameters()) parameter.tensor.mul_(0.75);
  }
  EXPECT_EQ(apart(run(*fresh, spec, precision).gradients, run(*model, spec, precision).gradients),
            0);
}

// With libtorch's cache on, casts made in an evaluation would have no gradients.
TEST_P(MixedPrecision, AnEvaluationLeavesNothingBehind) {
  const auto& [spec, precision, frozen] = GetParam();
  const auto model = make(GetParam()), fresh = make(GetParam());
  {
    const at::NoGradGuard no_grad;
    run(*model, spec, precision);
  }
  EXPECT_EQ(apart(run(*fresh, spec, precision).gradients, run(*model, spec, precision).gradients),
            0);
}

// So whoever brings weights to a pass may round them before.
TEST_P(MixedPrecision, SeesRoundedWhatProductsAloneUse) {
  const auto& [spec, precision, frozen] = GetParam();
  const auto model = make(GetParam()), rounded = make(GetParam());
  std::size_t count = 0;
  for (const Parameter& parameter : rounded->parameters()) {
    if (!parameter.products_only) continue;
    const at::NoGradGuard no_grad;
    parameter.tensor.copy_(parameter.tensor.to(narrow(precision)));
    ++count;
  }
  EXPECT_GT(count, 0u);
  const Pass expected = run(*model, spec, precision), found = run(*rounded, spec, precision);
  EXPECT_TRUE(found.logits.equal(expected.logits));
  for (std::size_t i = 0; i < expected.gradients.size(); ++i)
    EXPECT_TRUE(found.gradients[i].equal(expected.gradients[i])) << model->parameters()[i].name;
}

const ModelSpec kGroups = ResNetSpec{.channels = {8, 16}, .norm = NormKind::kGroup};
const ModelSpec kPlain = ResNetSpec{.channels = {8, 16}, .norm = NormKind::kNone};

INSTANTIATE_TEST_SUITE_P(
    Models, MixedPrecision,
    testing::Values(PassCase{kMlp, Precision::kBF16}, PassCase{kMlp, Precision::kF16},
                    PassCase{kResNet, Precision::kBF16}, PassCase{kResNet, Precision::kF16},
                    PassCase{kGroups, Precision::kBF16}, PassCase{kPlain, Precision::kBF16},
                    PassCase{kGpt, Precision::kBF16}, PassCase{kGpt, Precision::kF16},
                    PassCase{kLlama, Precision::kBF16}));

std::vector<std::string> names_used_otherwise(const Model& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters())
    if (!parameter.products_only) names.push_back(parameter.name);
  return names;
}

// The weights of an output layer are such, but not those that it shares with the embedding, where
// they are looked up.
TEST(ProductsOnly, LeavesOutNormsEmbeddingsAndRouters) {
  EXPECT_TRUE(names_used_otherwise(*make(kMlp)).empty());
  GptSpec gpt{.context = 8, .width = 32, .layers = 1, .heads = 2};
  const std::vector<std::string> others = {"embedding.token.weight", "embedding.position.weight",
                                           "layer0.norm1.weight",    "layer0.norm1.bias",
                                           "layer0.norm2.weight",    "layer0.norm2.bias",
                                           "head.norm.weight",       "head.norm.bias"};
  EXPECT_EQ(names_used_otherwise(*make(ModelSpec(gpt))), others);
  gpt.tied_head = false;
  EXPECT_EQ(names_used_otherwise(*make(ModelSpec(gpt))), others);
  const auto moe = names_used_otherwise(*make(ModelSpec(MoeSpec{.body = gpt, .experts = 2})));
  EXPECT_EQ(std::ranges::count(moe, "layer0.router.weight"), 1);
  EXPECT_EQ(moe.size(), others.size() + 1);
}

TEST(Autocast, IsThatOfItsThreadAndEndsWithItsScope) {
  const auto product = [] {
    return torch::linear(torch::ones({2, 3}), torch::ones({4, 3})).scalar_type();
  };
  {
    const Autocast outer(Precision::kBF16, torch::kCPU);
    EXPECT_EQ(product(), torch::kBFloat16);
    {
      const Autocast inner(Precision::kF16, torch::kCPU);
      EXPECT_EQ(product(), torch::kHalf);
      const Autocast off(Precision::kF32, torch::kCPU);
      EXPECT_EQ(product(), torch::kFloat);
    }
    EXPECT_EQ(product(), torch::kBFloat16);
    std::jthread([&] { EXPECT_EQ(product(), torch::kFloat); });
  }
  EXPECT_EQ(product(), torch::kFloat);
}

}  // namespace
}  // namespace muster::models
