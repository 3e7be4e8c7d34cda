#include "muster/models/generate.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/models/create.h"

namespace muster::models {
namespace {

std::unique_ptr<Model> created(const ModelSpec& spec) {
  auto model = *create_model(spec);
  model->initialize(1);
  return model;
}

std::unique_ptr<Model> small_gpt() {
  return created(GptSpec{.context = 8, .width = 16, .layers = 1, .heads = 2});
}

class GenerateText : public testing::TestWithParam<ModelSpec> {};

TEST_P(GenerateText, IsAFunctionOfTheStream) {
  auto model = created(GetParam());
  const GenerateOptions options{.length = 40, .temperature = 1, .context = 8};
  const auto first = *generate_text(*model, "In the", options, RandomStream(1, "generate"));
  EXPECT_EQ(first, *generate_text(*model, "In the", options, RandomStream(1, "generate")));
  EXPECT_NE(first, *generate_text(*model, "In the", options, RandomStream(2, "generate")));
  EXPECT_EQ(first.size(), 46u);
  EXPECT_EQ(first.substr(0, 6), "In the");
}

INSTANTIATE_TEST_SUITE_P(
    Families, GenerateText,
    testing::Values(GptSpec{.context = 8, .width = 16, .layers = 1, .heads = 2},
                    LlamaSpec{.context = 8, .width = 16, .layers = 1, .heads = 2, .kv_heads = 1},
                    MoeSpec{.body = GptSpec{.context = 8, .width = 16, .layers = 1, .heads = 2},
                            .experts = 3}),
    [](const auto& which) { return std::string(family_of(which.param)); });

TEST(Generate, TemperatureZeroTakesTheLikeliest) {
  auto model = small_gpt();
  const GenerateOptions options{.length = 12, .temperature = 0, .context = 8};
  const auto first = *generate_text(*model, "a", options, RandomStream(1, "generate"));
  EXPECT_EQ(first, *generate_text(*model, "a", options, RandomStream(2, "generate")));
  PassContext pass{.training = false, .random = RandomStream(1, "t")};
  const auto logits = model->forward(torch::tensor({{97}}), pass)[0][0];
  EXPECT_EQ(static_cast<std::uint8_t>(first[1]), logits.argmax().item<std::int64_t>());
}

TEST(Generate, StartsFromNothingAndRefusesNonsense) {
  auto model = small_gpt();
  EXPECT_EQ(generate_text(*model, "", {.length = 5, .context = 8}, RandomStream(1, "g"))->size(),
            5u);
  EXPECT_FALSE(generate_text(*model, "", {.length = -1}, RandomStream(1, "g")));
  const auto too_long =
      generate_text(*model, "123456789012", {.length = 1, .context = 12}, RandomStream(1, "g"));
  ASSERT_FALSE(too_long) << "a context beyond the model's is libtorch's error, as a value";
  EXPECT_EQ(too_long.error().message.rfind("[models/generate]", 0), 0u);
}

}  // namespace
}  // namespace muster::models
