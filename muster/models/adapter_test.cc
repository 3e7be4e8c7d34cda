#include "muster/models/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <map>

#include "muster/models/create.h"
#include "muster/models/layers.h"
#include "muster/models/testing/gradient_check.h"

namespace muster::models {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

const LlamaSpec kBase{.context = 8, .width = 16, .layers = 2, .heads = 2, .hidden = 8};

std::unique_ptr<Model> made(const ModelSpec& spec, const AdapterSpec& adapters) {
  auto model = *create_model(spec, adapters);
  model->initialize(3);
  return model;
}

std::map<std::string, torch::Tensor> tensors_of(const Model& model) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto* parameters : {&model.parameters(), &model.frozen()})
    for (const Parameter& parameter : *parameters) tensors[parameter.name] = parameter.tensor;
  return tensors;
}

torch::Tensor answer(Model& model, bool training = false) {
  PassContext context{.training = training, .random = RandomStream(1, "test")};
  return model.forward(torch::arange(16).view({2, 8}), context);
}

TEST(Adapter, OnlyAdaptersAreTrained) {
  const auto model = made(kBase, {.rank = 3, .target_modules = {"layer1.query", "*.gate"}});
  std::vector<std::string> trained;
  for (const Parameter& parameter : model->parameters()) trained.push_back(parameter.name);
  EXPECT_THAT(trained,
              UnorderedElementsAre("layer0.gate.lora_A.weight", "layer0.gate.lora_B.weight",
                                   "layer1.query.lora_A.weight", "layer1.query.lora_B.weight",
                                   "layer1.gate.lora_A.weight", "layer1.gate.lora_B.weight"));
  EXPECT_EQ(model->trained_count(), 2 * 3 * (16 + 8) + 3 * (16 + 16));
  const auto tensors = tensors_of(*model);
  EXPECT_EQ(tensors.at("layer1.gate.lora_A.weight").sizes(), torch::IntArrayRef({3, 16}));
  EXPECT_EQ(tensors.at("layer1.gate.lora_B.weight").sizes(), torch::IntArrayRef({8, 3}));
  EXPECT_EQ(tensors.at("layer1.gate.lora_alpha").item<float>(), 16);
  for (const Parameter& parameter : model->frozen())
    EXPECT_FALSE(parameter.tensor.requires_grad()) << parameter.name;
}

TEST(Adapter, NamesTheLayersThatCanHaveOne) {
  EXPECT_THAT(adaptable_layers((*create_model(GptSpec{.layers = 1}))->blocks()),
              ElementsAre("layer0.qkv", "layer0.projection", "layer0.expand", "layer0.contract"));
}

// So that training goes on from the base model, bit by bit.
TEST(Adapter, BeginsAsTheBaseModel) {
  for (const ModelSpec& spec :
       {ModelSpec(kBase), ModelSpec(MoeSpec{.body = kBase, .experts = 3})}) {
    const auto plain = made(spec, {}), adapted = made(spec, {.rank = 2});
    EXPECT_TRUE(torch::equal(answer(*plain), answer(*adapted))) << family_of(spec);
    const auto base = tensors_of(*plain);
    for (const auto& [name, tensor] : base)
      EXPECT_TRUE(torch::equal(tensor, tensors_of(*adapted).at(name))) << name;
  }
}

// Whichever other layers have one.
TEST(Adapter, InitialValuesAreThoseOfTheName) {
  const auto all = tensors_of(*made(kBase, {.rank = 2}));
  for (const auto& [name, tensor] :
       tensors_of(*made(kBase, {.rank = 2, .target_modules = {"layer1.value"}})))
    EXPECT_TRUE(torch::equal(tensor, all.at(name))) << name;
  const torch::Tensor& down = all.at("layer1.value.lora_A.weight");
  EXPECT_GT(down.abs().max().item<float>(), 0.1F);
  EXPECT_LE(down.abs().max().item<float>(), 0.25F) << "1 / sqrt(16)";
}

TEST(Adapter, AddsTheScaledProduct) {
  const auto model =
      made(MlpSpec{.inputs = 6, .hidden = {}, .classes = 4}, {.rank = 2, .alpha = 5});
  const auto tensors = tensors_of(*model);
  const at::NoGradGuard no_grad;
  const torch::Tensor up = tensors.at("head.linear.lora_B.weight");
  up.copy_(wavy({4, 2}));
  const torch::Tensor whole =
      tensors.at("head.linear.weight") + 2.5 * up.matmul(tensors.at("head.linear.lora_A.weight"));
  const torch::Tensor input = wavy({3, 6}, 1).to(torch::kFloat32);
  PassContext context{.training = false, .random = RandomStream(1, "test")};
  EXPECT_TRUE(torch::allclose(model->forward(input, context),
                              torch::linear(input, whole, tensors.at("head.linear.bias")), 1e-5,
                              1e-6));
}

class AdaptedLinear final : public Block {
 public:
  AdaptedLinear() : layer_(*this, "linear", {.in = 4, .out = 5}) {
    const BlockParameter weight = parameters().front();
    layers().front().adapter->attach(*this, "linear", weight, {.rank = 2});
  }
  torch::Tensor forward(torch::Tensor input, PassContext& context) override {
    return layer_(input, context);
  }

 private:
  Linear layer_;
};

TEST(Adapter, HasTheGradientsOfDifferences) {
  AdaptedLinear block;
  expect_gradients(block, wavy({3, 4}));
}

// Of the adapter's input alone, by a mask that the slice's random numbers decide.
TEST(Adapter, DropsInTrainingOnly) {
  const auto model = made(kBase, {.rank = 2, .dropout = 0.5});
  EXPECT_TRUE(torch::equal(answer(*model, true), answer(*made(kBase, {}), true)))
      << "B is zero still";
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : model->parameters()) parameter.tensor.fill_(0.3);
  EXPECT_TRUE(torch::equal(answer(*model, true), answer(*model, true)));
  EXPECT_FALSE(torch::equal(answer(*model, true), answer(*model)));
}

TEST(Adapter, IsCutAsItsLayerIs) {
  const auto model = *create_model(
      MoeSpec{.body = LlamaSpec{.layers = 1, .kv_heads = 2}, .experts = 2}, {.rank = 2});
  std::map<std::string, TensorPartition> plan;
  for (const Parameter& parameter : model->parameters()) plan[parameter.name] = parameter.partition;
  const auto& key = plan.at("layer0.key.lora_B.weight");
  EXPECT_EQ(key.split, Split::kColumn);
  EXPECT_EQ(key.units, 2);
  EXPECT_EQ(plan.at("layer0.key.lora_A.weight").split, Split::kNone);
  EXPECT_EQ(plan.at("layer0.projection.lora_A.weight").split, Split::kRow);
  EXPECT_EQ(plan.at("layer0.projection.lora_B.weight").split, Split::kNone);
  EXPECT_TRUE(plan.at("layer0.key.lora_A.weight").has_addends);
  EXPECT_TRUE(plan.at("layer0.projection.lora_B.weight").has_addends);
  EXPECT_FALSE(key.has_addends);
  EXPECT_EQ(plan.at("layer0.experts.1.gate.lora_A.weight").expert, 1);
}

TEST(Adapter, IsCutAsQueryKeyAndValueAre) {
  const auto model = *create_model(GptSpec{.layers = 1, .heads = 4}, {.rank = 2});
  const auto up =
      std::ranges::find(model->parameters(), "layer0.qkv.lora_B.weight", &Parameter::name);
  ASSERT_NE(up, model->parameters().end());
  EXPECT_EQ(up->partition.units, 12);
  EXPECT_EQ(up->partition.stacked, 3);
}

TEST(Adapter, RefusesWhatCannotBe) {
  EXPECT_FALSE(create_model(kBase, {.rank = -1}));
  EXPECT_FALSE(create_model(kBase, {.rank = 1, .alpha = 0}));
  EXPECT_FALSE(create_model(kBase, {.rank = 1, .dropout = 1}));
}

}  // namespace
}  // namespace muster::models
