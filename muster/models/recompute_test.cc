// Blocks whose activations are computed again: the same bits, and nothing kept but their inputs.

#include "muster/models/recompute.h"

#include <gtest/gtest.h>

#include "muster/models/memory_meter.h"
#include "muster/models/testing/one_pass.h"

namespace muster::models {
namespace {

std::unique_ptr<Model> make(const PassCase& task, bool recomputed) {
  auto model = make(task);
  model->recompute([&](const std::string&) { return recomputed; });
  return model;
}

void expect_equal(const std::vector<torch::Tensor>& found, const std::vector<torch::Tensor>& wanted,
                  std::string_view what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(torch::equal(found[i], wanted[i])) << what << " " << i;
}

class Recomputation : public testing::TestWithParam<PassCase> {};

TEST_P(Recomputation, ChangesNoBit) {
  const auto& [spec, precision, frozen] = GetParam();
  const Pass kept = run(*make(GetParam(), false), spec, precision);
  const Pass again = run(*make(GetParam(), true), spec, precision);
  expect_equal({again.logits, again.loss.sum}, {kept.logits, kept.loss.sum}, "output");
  expect_equal(again.gradients, kept.gradients, "gradient");
  expect_equal(again.statistics, kept.statistics, "statistic");
}

// Bytes that a pass holds between forward and backward.
std::int64_t held(Model& model, const ModelSpec& spec, Precision precision) {
  const torch::Tensor inputs = inputs_of(spec);
  PassContext context{.random = RandomStream(1, "forward"), .compute = {.precision = precision}};
  const MemoryMeter meter;
  const torch::Tensor output = model.forward(inputs, context);
  return meter.held();
}

std::int64_t outputs_of_blocks(Model& model, const ModelSpec& spec, Precision precision) {
  torch::Tensor output = inputs_of(spec);
  PassContext context{.random = RandomStream(1, "forward"), .compute = {.precision = precision}};
  std::int64_t bytes = 0;
  for (std::size_t b = 0; b < model.blocks().size(); ++b) {
    output = model.forward_block(b, output, context);
    bytes += static_cast<std::int64_t>(output.nbytes());
  }
  return bytes;
}

TEST_P(Recomputation, KeepsWhatBlocksHandOnAndNothingElse) {
  const auto& [spec, precision, frozen] = GetParam();
  const auto kept = make(GetParam(), false), again = make(GetParam(), true);
  const std::int64_t handed_on = outputs_of_blocks(*kept, spec, precision);
  EXPECT_EQ(held(*again, spec, precision), handed_on);
  EXPECT_GT(2 * held(*kept, spec, precision), 3 * handed_on);
}

const ModelSpec kMoe =
    MoeSpec{.body = LlamaSpec{.context = 8, .width = 32, .layers = 2, .heads = 2, .dropout = 0.1},
            .experts = 5};

INSTANTIATE_TEST_SUITE_P(Models, Recomputation,
                         testing::Values(PassCase{kMlp}, PassCase{kMlp, Precision::kF16},
                                         PassCase{kResNet}, PassCase{kResNet, Precision::kBF16},
                                         PassCase{kGpt}, PassCase{kGpt, Precision::kBF16},
                                         PassCase{kLlama}, PassCase{kLlama, Precision::kBF16},
                                         PassCase{kMoe}, PassCase{kMoe, Precision::kBF16},
                                         PassCase{kGpt, Precision::kF32, "layer1"},
                                         PassCase{kResNet, Precision::kF32, "stage0_block1"}));

// With a block's own activations at a time instead of those of all twelve.
TEST(Recomputation, LowersThePeakOfAStep) {
  const ModelSpec spec =
      GptSpec{.context = 8, .width = 8, .layers = 12, .heads = 2, .dropout = 0.1};
  const auto peak = [&](const std::function<bool(const std::string&)>& chosen) {
    const auto model = make(spec);
    model->recompute(chosen);
    const MemoryMeter meter;
    const Pass pass = run(*model, spec);
    return meter.peak();
  };
  const auto none = peak([](const std::string&) { return false; });
  const auto even = peak([](const std::string& block) { return (block.back() - '0') % 2 == 0; });
  const auto layers = peak([](const std::string& block) { return block.starts_with("layer"); });
  EXPECT_LT(even, none);
  EXPECT_LT(layers, even);
}

TEST(Recomputation, IsOfReplicasAndPartsToo) {
  const auto model = make(kGpt);
  model->recompute([](const std::string& block) { return block == "layer1"; });
  const auto chosen = [](const Model& some) {
    std::vector<std::string> names;
    for (std::size_t b = 0; b < some.blocks().size(); ++b)
      if (some.recomputes(b)) names.push_back(some.blocks()[b].name);
    return names;
  };
  const std::vector<std::string> wanted{"layer1"};
  EXPECT_EQ(chosen(*model->replicate()), wanted);
  EXPECT_EQ(chosen(*model->part({2, 3})), wanted);
  EXPECT_EQ(chosen(*model->part({2, 3})->replicate()), wanted);
  EXPECT_TRUE(chosen(*model->part({0, 1})).empty());
}

}  // namespace
}  // namespace muster::models
