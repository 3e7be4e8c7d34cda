// What the model families promise: shapes, counts, names, keyed initial values, replicas.

#include "muster/models/model.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "muster/models/create.h"

namespace muster::models {
namespace {

PassContext evaluating() { return {.training = false, .random = RandomStream(1, "test")}; }

TEST(Model, ResNetHasTheExpectedSizeAndShape) {
  auto model = *create_model(ResNetSpec{});
  EXPECT_EQ(model->parameter_count(), 77754);
  EXPECT_EQ(model->statistics().size(), 18u);
  EXPECT_EQ(model->blocks().size(), 5u);
  model->initialize(1);
  auto context = evaluating();
  EXPECT_EQ(model->forward(torch::zeros({3, 1, 28, 28}), context).sizes(),
            torch::IntArrayRef({3, 10}));
  EXPECT_EQ(model->describe(), "resnet: 5 blocks, 77754 parameters (303.7 KiB), 18 statistics");
}

TEST(Model, GptHasTheExpectedSizeAndShape) {
  auto tied = *create_model(GptSpec{});
  auto untied = *create_model(GptSpec{.tied_head = false});
  EXPECT_EQ(tied->parameter_count(), 842496);
  EXPECT_EQ(untied->parameter_count(), 875264);
  tied->initialize(1);
  auto context = evaluating();
  const auto logits = tied->forward(torch::zeros({2, 17}, torch::kUInt8), context);
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 17, 256}));
}

TEST(Model, LlamaHasTheExpectedSizeAndShape) {
  const std::int64_t norms = 2 * 128, mlp = 3 * 128 * 352, square = 128 * 128;
  auto plain = *create_model(LlamaSpec{});
  EXPECT_EQ(plain->parameter_count(), 2 * 256 * 128 + 4 * (4 * square + mlp + norms) + 128);
  auto grouped = *create_model(LlamaSpec{.kv_heads = 1, .hidden = 10, .tied_head = true});
  EXPECT_EQ(grouped->parameter_count(),
            256 * 128 + 4 * (2 * square + 2 * 128 * 32 + 3 * 128 * 10 + norms) + 128);
  grouped->initialize(1);
  auto context = evaluating();
  const auto logits = grouped->forward(torch::zeros({2, 17}, torch::kUInt8), context);
  EXPECT_EQ(logits.sizes(), torch::IntArrayRef({2, 17, 256}));
}

TEST(Model, MoeHasTheExpectedSizeAndShape) {
  const LlamaSpec body{.width = 32, .hidden = 10};
  auto dense = *create_model(body);
  const std::int64_t expert = 3 * 32 * 10;
  auto every = *create_model(MoeSpec{.body = body, .experts = 6});
  EXPECT_EQ(every->parameter_count(), dense->parameter_count() + 4 * (5 * expert + 6 * 32));
  auto second = *create_model(MoeSpec{.body = body, .experts = 6, .sparse_step = 2});
  EXPECT_EQ(second->parameter_count(), dense->parameter_count() + 2 * (5 * expert + 6 * 32));
  EXPECT_EQ(second->statistics().front().name, "layer1.router.load");
  EXPECT_EQ(second->statistics().size(), 2u * 4);
  auto gpt = *create_model(MoeSpec{.body = GptSpec{.width = 32}, .experts_per_token = 1});
  gpt->initialize(1);
  auto context = evaluating();
  EXPECT_EQ(gpt->forward(torch::zeros({2, 17}, torch::kUInt8), context).sizes(),
            torch::IntArrayRef({2, 17, 256}));
}

// Experts are told apart, and cut no further than their layers could be by themselves.
TEST(Model, PartitionSpecNamesExperts) {
  auto model =
      *create_model(MoeSpec{.body = LlamaSpec{.layers = 2}, .experts = 3, .sparse_step = 2});
  std::map<std::string, TensorPartition> plan;
  for (const auto& parameter : model->parameters()) plan[parameter.name] = parameter.partition;
  EXPECT_EQ(plan["layer0.gate.weight"].expert, -1);
  EXPECT_EQ(plan["layer1.router.weight"].expert, -1);
  EXPECT_EQ(plan["layer1.projection.weight"].expert, -1);
  for (const std::int64_t expert : {0, 1, 2}) {
    const std::string name = fmt::format("layer1.experts.{}.", expert);
    EXPECT_EQ(plan.at(name + "gate.weight").expert, expert);
    EXPECT_EQ(plan.at(name + "expand.weight").split, Split::kColumn);
    EXPECT_EQ(plan.at(name + "contract.weight").split, Split::kRow);
    EXPECT_EQ(plan.at(name + "contract.weight").expert, expert);
  }
  auto gpt = *create_model(MoeSpec{.body = GptSpec{.layers = 1}, .experts = 2});
  for (const auto& parameter : gpt->parameters())
    if (parameter.name == "layer0.experts.1.expand.bias") {
      EXPECT_EQ(parameter.partition.expert, 1);
      EXPECT_EQ(parameter.partition.split, Split::kColumn);
    }
}

// The worst layer's numbers.
TEST(Model, MetricsAreThoseOfTheWorstBlock) {
  auto model = *create_model(MoeSpec{.body = GptSpec{.layers = 2}, .experts = 4});
  std::vector<torch::Tensor> merged;
  for (const auto& statistic : model->statistics()) merged.push_back(statistic.tensor.clone());
  ASSERT_EQ(merged.size(), 8u);
  merged[4][2] = 0.75;
  merged[1][0] = 0.125;
  std::map<std::string, double> metrics;
  for (const BlockMetric& metric : model->metrics(merged)) metrics[metric.name] = metric.value;
  EXPECT_EQ(metrics.size(), 4u);
  EXPECT_EQ(metrics["moe/load_imbalance"], 3);
  EXPECT_EQ(metrics["moe/dropped_fraction"], 0.125);
  EXPECT_TRUE((*create_model(GptSpec{}))->metrics({}).empty());
}

class LanguageModel : public testing::TestWithParam<ModelSpec> {};

TEST_P(LanguageModel, SeesNoLaterByte) {
  auto model = *create_model(GetParam());
  model->initialize(1);
  auto first = torch::arange(16).view({1, 16});
  auto second = first.clone();
  second[0][9] = 200;
  auto context = evaluating();
  const auto a = model->forward(first, context), b = model->forward(second, context);
  // An expert's product has as many rows as tokens, and may round otherwise for another number.
  EXPECT_TRUE(torch::allclose(a.narrow(1, 0, 9), b.narrow(1, 0, 9), 1e-5, 1e-7));
  EXPECT_FALSE(torch::allclose(a.narrow(1, 9, 7), b.narrow(1, 9, 7), 1e-5, 1e-7));
}

// The same two bytes in another order, or further apart, are something else to the byte after them.
TEST_P(LanguageModel, KnowsPositions) {
  auto model = *create_model(GetParam());
  model->initialize(1);
  auto context = evaluating();
  const auto last = [&](std::vector<std::int64_t> text) {
    const auto logits = model->forward(torch::tensor(text).unsqueeze(0), context);
    return logits[0][logits.size(1) - 1];
  };
  EXPECT_FALSE(torch::allclose(last({5, 9, 1, 1, 7}), last({9, 5, 1, 1, 7}), 1e-5, 1e-7));
  EXPECT_FALSE(torch::allclose(last({5, 1, 1, 9, 7}), last({1, 5, 1, 9, 7}), 1e-5, 1e-7));
}

INSTANTIATE_TEST_SUITE_P(
    Families, LanguageModel,
    testing::Values(GptSpec{.context = 16, .width = 32, .layers = 2},
                    LlamaSpec{.context = 16, .width = 32, .layers = 2, .kv_heads = 2},
                    MoeSpec{.body = LlamaSpec{.context = 16, .width = 32, .layers = 2},
                            .capacity_factor = 0.5}),
    [](const auto& which) { return std::string(family_of(which.param)); });

TEST(Model, MlpHasTheExpectedSizeAndShape) {
  auto model = *create_model(MlpSpec{.inputs = 784, .hidden = {64, 32}, .classes = 10});
  EXPECT_EQ(model->parameter_count(), 784 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10);
  model->initialize(1);
  auto context = evaluating();
  EXPECT_EQ(model->forward(torch::zeros({5, 1, 28, 28}), context).sizes(),
            torch::IntArrayRef({5, 10}));
}

TEST(Model, NamesAreStableAndInForwardOrder) {
  std::vector<std::string> names;
  auto model = *create_model(ResNetSpec{.channels = {4, 8}});
  for (const auto& parameter : model->parameters()) names.push_back(parameter.name);
  EXPECT_THAT(names, testing::ElementsAre(
                         "stem.conv.weight", "stem.norm.weight", "stem.norm.bias",
                         "stage0_block0.conv1.weight", "stage0_block0.norm1.weight",
                         "stage0_block0.norm1.bias", "stage0_block0.conv2.weight",
                         "stage0_block0.norm2.weight", "stage0_block0.norm2.bias",
                         "stage1_block0.conv1.weight", "stage1_block0.norm1.weight",
                         "stage1_block0.norm1.bias", "stage1_block0.shortcut.conv.weight",
                         "stage1_block0.shortcut.norm.weight", "stage1_block0.shortcut.norm.bias",
                         "stage1_block0.conv2.weight", "stage1_block0.norm2.weight",
                         "stage1_block0.norm2.bias", "head.linear.weight", "head.linear.bias"));
  EXPECT_EQ(model->statistics().front().name, "stem.norm.running_mean");
  EXPECT_EQ(model->statistics().back().name, "stage1_block0.norm2.running_var");
}

TEST(Model, GroupNormAndNoNormKeepNoStatistics) {
  for (const NormKind norm : {NormKind::kGroup, NormKind::kNone}) {
    auto model = *create_model(ResNetSpec{.channels = {6, 8}, .norm = norm});
    model->initialize(1);
    EXPECT_TRUE(model->statistics().empty());
    auto training = PassContext{.training = true, .random = RandomStream(1, "forward")};
    auto context = evaluating();
    const auto input = torch::randn({3, 1, 8, 8});
    EXPECT_TRUE(torch::equal(model->forward(input, training), model->forward(input, context)));
  }
}

TEST(Model, NormsAndBiasesDoNotDecay) {
  for (const ModelSpec& spec : {ModelSpec(GptSpec{.layers = 1}), ModelSpec(LlamaSpec{.layers = 1}),
                                ModelSpec(MoeSpec{.body = GptSpec{.layers = 1}})})
    for (const auto& parameter : (*create_model(spec))->parameters())
      EXPECT_EQ(parameter.decays, parameter.tensor.dim() > 1) << parameter.name;
}

TEST(Model, PartitionSpecIsMegatrons) {
  auto model = *create_model(GptSpec{.layers = 1});
  std::map<std::string, TensorPartition> plan;
  for (const auto& parameter : model->parameters()) plan[parameter.name] = parameter.partition;
  EXPECT_EQ(plan["embedding.token.weight"].split, Split::kVocabulary);
  EXPECT_EQ(plan["layer0.qkv.weight"].axis(), 0);
  EXPECT_EQ(plan["layer0.qkv.bias"].split, Split::kColumn);
  EXPECT_EQ(plan["layer0.qkv.weight"].units, 12);
  EXPECT_EQ(plan["layer0.projection.weight"].axis(), 1);
  EXPECT_EQ(plan["layer0.projection.bias"].split, Split::kNone);
  EXPECT_EQ(plan["head.norm.weight"].axis(), -1);
}

// The query heads that one key head serves stay with it wherever the tensors are cut.
TEST(Model, PartitionSpecKeepsGroupsOfHeadsTogether) {
  auto model = *create_model(LlamaSpec{.layers = 1, .kv_heads = 2});
  std::map<std::string, TensorPartition> plan;
  for (const auto& parameter : model->parameters()) plan[parameter.name] = parameter.partition;
  for (const char* name : {"layer0.query.weight", "layer0.key.weight", "layer0.value.weight"}) {
    EXPECT_EQ(plan[name].split, Split::kColumn) << name;
    EXPECT_EQ(plan[name].units, 2) << name;
  }
  EXPECT_EQ(plan["layer0.projection.weight"].split, Split::kRow);
  EXPECT_EQ(plan["layer0.projection.weight"].units, 2);
  EXPECT_EQ(plan["layer0.gate.weight"].split, Split::kColumn);
  EXPECT_EQ(plan["layer0.contract.weight"].split, Split::kRow);
  EXPECT_EQ(plan["head.weight"].split, Split::kVocabulary);
  EXPECT_EQ(plan.count("embedding.position.weight") + plan.count("layer0.query.bias"), 0u);
}

TEST(Model, InitialValuesDependOnSeedAndNameAlone) {
  auto four = *create_model(GptSpec{.layers = 4, .tied_head = false});
  auto two = *create_model(GptSpec{.layers = 2, .tied_head = false});
  four->initialize(5);
  torch::rand({1000});  // a draw from libtorch's own generator changes nothing
  two->initialize(5);
  two->initialize(5);
  const auto find = [](const Model& model, const std::string& name) {
    for (const auto& parameter : model.parameters())
      if (parameter.name == name) return parameter.tensor;
    return torch::Tensor();
  };
  for (const char* name : {"layer1.qkv.weight", "head.weight", "embedding.token.weight"})
    EXPECT_TRUE(torch::equal(find(*four, name), find(*two, name))) << name;
  EXPECT_FALSE(torch::equal(find(*four, "layer0.qkv.weight"), find(*four, "layer1.qkv.weight")));
  two->initialize(6);
  EXPECT_FALSE(torch::equal(find(*four, "layer1.qkv.weight"), find(*two, "layer1.qkv.weight")));
}

TEST(Model, ReplicasShareValuesAndNotGradients) {
  auto model = *create_model(GptSpec{.context = 8, .width = 16, .layers = 1, .heads = 2});
  model->initialize(1);
  auto replica = model->replicate();
  auto context = evaluating();
  const auto input = torch::arange(8).view({1, 8});
  replica->loss_sum(replica->forward(input, context), input).sum.backward();
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    const auto& mine = model->parameters()[i].tensor;
    const auto& other = replica->parameters()[i].tensor;
    EXPECT_EQ(mine.data_ptr(), other.data_ptr());
    EXPECT_FALSE(mine.grad().defined()) << model->parameters()[i].name;
    EXPECT_TRUE(other.grad().defined()) << model->parameters()[i].name;
  }
  {
    const at::NoGradGuard no_grad;
    for (const auto& parameter : model->parameters()) parameter.tensor.add_(0.01);
  }
  EXPECT_TRUE(torch::equal(model->forward(input, context), replica->forward(input, context)));
}

TEST(Model, LossIsTheSumAndCountsWhatIsRight) {
  const auto logits = torch::tensor({{2.0f, 0.0f}, {2.0f, 0.0f}, {0.0f, 3.0f}});
  const auto loss = cross_entropy_sum(logits, torch::tensor({0, 1, 1}));
  const double expected =
      std::log1p(std::exp(-2.0)) + 2 + std::log1p(std::exp(-2.0)) + std::log1p(std::exp(-3.0));
  EXPECT_NEAR(loss.sum.item<double>(), expected, 1e-6);
  EXPECT_EQ(loss.correct.item<std::int64_t>(), 2);
  EXPECT_EQ(loss.targets, 3);
  const auto three = cross_entropy_sum(logits.view({1, 3, 2}), torch::tensor({{0, 1, 1}}));
  EXPECT_EQ(three.sum.item<float>(), loss.sum.item<float>());
}

TEST(Model, SmoothedLabelsAreSpreadOverAllClasses) {
  const auto logits = torch::tensor({{2.0, 0.0, -1.0}, {0.5, 3.0, 0.25}}, torch::kFloat64);
  const auto targets = torch::tensor({0, 2});
  const auto wanted =
      0.7 * torch::one_hot(targets, 3).to(torch::kFloat64) + 0.3 / 3;  // probabilities
  const auto expected = -(wanted * torch::log_softmax(logits, 1)).sum();
  const auto loss = cross_entropy_sum(logits, targets, 0.3);
  EXPECT_NEAR(loss.sum.item<double>(), expected.item<double>(), 1e-15);
  EXPECT_EQ(loss.correct.item<std::int64_t>(), 1);
  const auto plain = cross_entropy_sum(logits, targets).sum;
  EXPECT_TRUE(torch::equal(cross_entropy_sum(logits, targets, 0).sum, plain));
}

TEST(Model, LanesTrainWithTheLossOfTheModel) {
  auto model = create_model(MlpSpec{.inputs = 4}).value();
  model->train_with([](const torch::Tensor& logits, const torch::Tensor& target) {
    return cross_entropy_sum(logits, target, 0.1);
  });
  const auto replica = model->replicate();
  const auto logits = torch::arange(20, torch::kFloat32).view({2, 10});
  const auto targets = torch::tensor({3, 9});
  EXPECT_TRUE(torch::equal(replica->loss_sum(logits, targets).sum,
                           cross_entropy_sum(logits, targets, 0.1).sum));
  EXPECT_TRUE(torch::equal(replica->evaluation_loss_sum(logits, targets).sum,
                           cross_entropy_sum(logits, targets).sum));
}

TEST(Model, FrozenParametersKeepTheirPlaceButGetNoGradient) {
  auto whole = create_model(MlpSpec{.inputs = 4, .hidden = {6, 5}}).value();
  auto model = create_model(MlpSpec{.inputs = 4, .hidden = {6, 5}}).value();
  model->freeze([](const Parameter& parameter) {
    return parameter.name.starts_with("layer0") || parameter.name == "head.linear.bias";
  });
  whole->initialize(3);
  model->initialize(3);
  const auto names = [](const std::vector<Parameter>& parameters) {
    std::vector<std::string> found;
    for (const auto& parameter : parameters) found.push_back(parameter.name);
    return found;
  };
  EXPECT_THAT(
      names(model->parameters()),
      testing::ElementsAre("layer1.linear.weight", "layer1.linear.bias", "head.linear.weight"));
  EXPECT_THAT(
      names(model->frozen()),
      testing::ElementsAre("layer0.linear.weight", "layer0.linear.bias", "head.linear.bias"));
  EXPECT_EQ(model->parameter_count(), whole->parameter_count());
  EXPECT_EQ(model->trained_count(), 5 * 6 + 5 + 10 * 5);
  EXPECT_THAT(model->describe(), testing::HasSubstr("125 parameters (500 B), 85 of them"));

  const auto replica = model->replicate();
  auto context = evaluating();
  const auto input = torch::arange(8, torch::kFloat32).view({2, 4});
  const auto output = replica->forward(input, context);
  EXPECT_TRUE(torch::equal(output, whole->forward(input, context)));
  output.sum().backward();
  EXPECT_EQ(names(replica->frozen()), names(model->frozen()));
  for (const auto& parameter : replica->frozen()) {
    EXPECT_FALSE(parameter.tensor.requires_grad()) << parameter.name;
    EXPECT_FALSE(parameter.tensor.grad().defined()) << parameter.name;
  }
  for (const auto& parameter : replica->parameters())
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  EXPECT_EQ(replica->frozen()[0].tensor.data_ptr(), model->frozen()[0].tensor.data_ptr());
}

TEST(Model, RunsModulesOfLibtorch) {
  Model model("custom", [] {
    auto module = std::make_shared<torch::nn::LinearImpl>(4, 3);
    return std::vector<NamedBlock>{
        {"all", std::make_shared<ModuleBlock<torch::nn::LinearImpl>>(module)}};
  });
  auto replica = model.replicate();
  auto context = evaluating();
  const auto input = torch::ones({2, 4});
  EXPECT_TRUE(torch::equal(model.forward(input, context), replica->forward(input, context)));
  EXPECT_THROW(ModuleBlock(std::make_shared<torch::nn::BatchNorm1dImpl>(3)), LogicFault);
}

TEST(CreateModel, NamesTheFieldThatDoesNotFit) {
  const auto heads = create_model(GptSpec{.width = 128, .heads = 3});
  ASSERT_FALSE(heads);
  EXPECT_EQ(heads.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(heads.error().message, testing::HasSubstr("model.heads is 3"));
  const auto groups = create_model(LlamaSpec{.heads = 4, .kv_heads = 3});
  ASSERT_FALSE(groups);
  EXPECT_THAT(groups.error().message, testing::HasSubstr("model.kv_heads is 3"));
  EXPECT_FALSE(create_model(LlamaSpec{.width = 12, .heads = 4})) << "heads of three numbers";
  EXPECT_FALSE(create_model(LlamaSpec{.rotary_base = 0}));
  EXPECT_FALSE(create_model(GptSpec{.hidden = -1}));
  EXPECT_FALSE(create_model(MoeSpec{.experts = 2, .experts_per_token = 3}));
  EXPECT_FALSE(create_model(MoeSpec{.body = GptSpec{.layers = 2}, .sparse_step = 3}));
  EXPECT_FALSE(create_model(MoeSpec{.body = GptSpec{.heads = 3}})) << "the body is checked too";
  EXPECT_FALSE(create_model(MoeSpec{.capacity_factor = 0}));
  EXPECT_FALSE(create_model(ResNetSpec{.channels = {}}));
  EXPECT_FALSE(create_model(ResNetSpec{.channels = {16, 0}}));
  EXPECT_FALSE(create_model(MlpSpec{.dropout = 1.0}));
}

// Parts have the names and initial values of the whole; what is tied comes along.
TEST(Model, PartsAreThoseOfTheWhole) {
  const auto whole = *create_model(GptSpec{.context = 8, .width = 8, .layers = 2, .heads = 2});
  whole->initialize(7);
  const std::vector<std::vector<std::size_t>> cuts{{0, 1}, {2}, {3}};
  std::vector<std::string> names;
  auto activation = torch::arange(8).view({1, 8}).to(torch::kUInt8);
  auto context = evaluating();
  const auto expected = whole->forward(activation, context);
  for (const auto& blocks : cuts) {
    const auto part = whole->part(blocks);
    part->initialize(7);
    activation = part->forward(activation, context);
    for (const Parameter& parameter : part->parameters()) {
      EXPECT_EQ(parameter.borrowed, parameter.name == "embedding.token.weight" && blocks[0] == 3)
          << parameter.name;
      if (!parameter.borrowed) names.push_back(parameter.name);
    }
  }
  EXPECT_TRUE(torch::equal(activation, expected));
  std::vector<std::string> all;
  for (const Parameter& parameter : whole->parameters()) all.push_back(parameter.name);
  EXPECT_EQ(names, all);
}

}  // namespace
}  // namespace muster::models
