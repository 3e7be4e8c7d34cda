// Every layer's and every block's gradient against differences, in f64.

#include <gtest/gtest.h>
#include <torch/types.h>

#include "muster/models/attention.h"
#include "muster/models/create.h"
#include "muster/models/feed_forward.h"
#include "muster/models/layers.h"
#include "muster/models/testing/gradient_check.h"

namespace muster::models {
namespace {

using Name = std::string;

TEST(Gradients, OfLinear) {
  Alone<Linear> with(Name("linear"), LinearOptions{.in = 3, .out = 4});
  expect_gradients(with, wavy({2, 5, 3}));
  Alone<Linear> without(Name("linear"), LinearOptions{.in = 3, .out = 4, .bias = false});
  EXPECT_EQ(without.parameters().size(), 1u);
  expect_gradients(without, wavy({2, 5, 3}));
}

TEST(Gradients, OfNorms) {
  Alone<LayerNorm> layer(Name("norm"), std::int64_t{5});
  expect_gradients(layer, wavy({2, 3, 5}));
  Alone<RmsNorm> rms(Name("norm"), std::int64_t{5}, 1e-5);
  expect_gradients(rms, wavy({2, 3, 5}));
  Alone<BatchNorm> batch(Name("norm"), std::int64_t{3});
  expect_gradients(batch, wavy({4, 3, 2, 2}));
  Alone<GroupNorm> group(Name("norm"), std::int64_t{4});
  expect_gradients(group, wavy({2, 4, 2, 2}));
}

TEST(Gradients, OfConvolution) {
  for (const std::int64_t kernel : {1, 3})
    for (const std::int64_t stride : {1, 2}) {
      Alone<Convolution> layer(
          Name("conv"), ConvolutionOptions{.in = 2, .out = 3, .kernel = kernel, .stride = stride});
      expect_gradients(layer, wavy({2, 2, 5, 5}));
    }
}

TEST(Gradients, OfAttention) {
  const AttentionOptions plain{.width = 12, .heads = 3, .kv_heads = 3, .joint = true, .bias = true};
  Alone<Attention> joint(plain);
  expect_gradients(joint, wavy({2, 5, 12}));
  for (const std::int64_t kv_heads : {1, 3}) {
    Alone<Attention> separate(
        AttentionOptions{.width = 12,
                         .heads = 3,
                         .kv_heads = kv_heads,
                         .rotary = std::make_shared<const RotaryTable>(7, 4, 100.0)});
    expect_gradients(separate, wavy({2, 5, 12}));
  }
}

TEST(Gradients, OfFeedForward) {
  for (const auto kind : {FeedForwardKind::kGelu, FeedForwardKind::kSwiGlu}) {
    Alone<FeedForward> layer(
        FeedForwardOptions{.kind = kind, .width = 4, .hidden = 7, .bias = true});
    expect_gradients(layer, wavy({2, 3, 4}));
  }
}

struct Family {
  std::string name;
  ModelSpec spec;
};

class BlockGradients : public testing::TestWithParam<Family> {};

TEST_P(BlockGradients, AreThoseOfDifferences) {
  auto model = *create_model(GetParam().spec);
  for (const auto& [name, block] : model->blocks()) {
    SCOPED_TRACE(name);
    if (name == "embedding")
      expect_gradients(*block, torch::tensor({{1, 6, 2}, {2, 0, 6}}));
    else
      expect_gradients(*block, wavy({2, 5, 8}));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BlockGradients,
                         testing::Values(Family{"gpt", GptSpec{.vocabulary = 7,
                                                               .context = 5,
                                                               .width = 8,
                                                               .layers = 1,
                                                               .heads = 2,
                                                               .dropout = 0.2,
                                                               .tied_head = false}},
                                         Family{"llama", LlamaSpec{.vocabulary = 7,
                                                                   .context = 5,
                                                                   .width = 8,
                                                                   .layers = 1,
                                                                   .heads = 2,
                                                                   .kv_heads = 1,
                                                                   .hidden = 5,
                                                                   .dropout = 0.2}}),
                         [](const auto& which) { return which.param.name; });

}  // namespace
}  // namespace muster::models
