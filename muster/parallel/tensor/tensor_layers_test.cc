// Models whose tensors lie on several ranks against the whole ones, in f64: what comes out, every
// gradient, and these against differences. With the rounding of f64 only the order of sums differs.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "muster/models/create.h"
#include "muster/models/tensor_ops.h"
#include "muster/models/testing/gradient_check.h"
#include "muster/parallel/tensor/tensor_ranks.h"
#include "muster/parallel/testing/on_ranks.h"

namespace muster::parallel {
namespace {

using models::Model;

constexpr double kRounding = 1e-11;
constexpr std::int64_t kSamples = 3;
constexpr std::int64_t kPositions = 12;

struct CutCase {
  std::string name;
  models::ModelSpec model;
  double smoothing = 0;
  std::vector<std::string> frozen = {};
  bool sequence = false;
  models::AdapterSpec adapters = {};
};
std::string name_of(const testing::TestParamInfo<std::tuple<CutCase, int>>& info) {
  return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
}
void PrintTo(const CutCase& one, std::ostream* out) { *out << one.name; }

bool reads_text(const models::ModelSpec& spec) {
  const auto family = models::family_of(spec);
  return family != "mlp" && family != "resnet";
}

at::Tensor inputs_of(const models::ModelSpec& spec) {
  if (models::family_of(spec) == "resnet") return models::wavy({kSamples, 2, 6, 6});
  if (!reads_text(spec)) return models::wavy({kSamples, 6});
  return (torch::arange(kSamples * kPositions) * 5 % 11)
      .view({kSamples, kPositions})
      .to(torch::kUInt8);
}

at::Tensor targets_of(const models::ModelSpec& spec) {
  if (!reads_text(spec)) return torch::arange(kSamples) % 5;
  return (torch::arange(kSamples * kPositions) * 7 % 11)
      .view({kSamples, kPositions})
      .to(torch::kUInt8);
}

std::unique_ptr<Model> make(const CutCase& one) {
  at::set_num_threads(1);
  auto model = *models::create_model(one.model, one.adapters);
  for (const models::NamedBlock& named : model->blocks()) models::fill_in_double(*named.block);
  model->smooth_labels(one.smoothing);
  model->freeze([&](const models::Parameter& parameter) {
    return std::ranges::find(one.frozen, parameter.name) != one.frozen.end();
  });
  return model;
}

struct Pass {
  at::Tensor sum, correct;
};

Pass run(Model& model, const CutCase& one) {
  models::PassContext context{.random = RandomStream(1, "pass")};
  const auto loss =
      model.loss_sum(model.forward(inputs_of(one.model), context), targets_of(one.model));
  return {loss.sum, loss.correct};
}

std::vector<at::Tensor> gradients_of(Model& model, const CutCase& one) {
  return torch::autograd::grad({run(model, one).sum}, model.parameter_tensors(), {}, std::nullopt,
                               false, /*allow_unused=*/true);
}

// Each rank of the group, on a thread of its own.
void on_tensor_ranks(std::int32_t size,
                     const std::function<void(const std::shared_ptr<TensorRanks>&)>& body,
                     bool sequence = false) {
  on_ranks(size, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    at::set_num_threads(1);
    const comm::Group group = communicator->group();
    const auto ranks = std::make_shared<TensorRanks>(
        models::TensorShare{to_int(group.rank), group.size}, comm::OpOptions{}, sequence);
    ranks->use(communicator);
    body(ranks);
  });
}

// Each rank's own, or of what is not cut the sum where it has addends only.
std::vector<at::Tensor> gradients_of(Model& model, const CutCase& one, const TensorRanks& ranks) {
  std::vector<at::Tensor> gradients = gradients_of(model, one);
  if (ranks.share().size == 1) return gradients;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const models::Parameter& parameter = model.parameters()[p];
    const bool has_addends = ranks.cuts_sequence() || parameter.partition.has_addends;
    if (has_addends && !parameter.cut.is_part() && gradients[p].defined())
      gradients[p] = ranks.sum(gradients[p], "gradients");
  }
  return gradients;
}

class CutModel : public testing::TestWithParam<std::tuple<CutCase, int>> {};

TEST_P(CutModel, ComputesWhatTheWholeDoes) {
  const auto& [one, size] = GetParam();
  const auto whole = make(one);
  const Pass expected = run(*whole, one);
  const std::vector<at::Tensor> gradients = gradients_of(*whole, one);
  on_tensor_ranks(
      size,
      [&](const std::shared_ptr<TensorRanks>& ranks) {
        const auto model = make(one);
        ASSERT_TRUE(model->split(ranks));
        const Pass pass = run(*model, one);
        expect_close(pass.sum.detach(), expected.sum.detach(), kRounding, "loss");
        EXPECT_TRUE(torch::equal(pass.correct, expected.correct));
        const std::vector<at::Tensor> own = gradients_of(*model, one, *ranks);
        for (std::size_t p = 0; p < own.size(); ++p) {
          const models::Parameter& parameter = model->parameters()[p];
          EXPECT_EQ(parameter.cut.is_part(), size > 1 && parameter.partition.axis() >= 0);
          ASSERT_EQ(own[p].defined(), gradients[p].defined()) << parameter.name;
          if (own[p].defined())
            expect_close(own[p], part_of(gradients[p], parameter.cut), kRounding, parameter.name);
        }
      },
      one.sequence);
}

// Of the first and the last element that a rank has of each parameter. Of one that is cut only its
// owner changes it; all compute.
TEST_P(CutModel, HasTheGradientsOfDifferences) {
  const auto& [one, size] = GetParam();
  on_tensor_ranks(
      size,
      [&](const std::shared_ptr<TensorRanks>& ranks) {
        constexpr double kStep = 1e-6;
        const auto model = make(one);
        ASSERT_TRUE(model->split(ranks));
        const std::vector<at::Tensor> gradients = gradients_of(*model, one, *ranks);
        const std::int32_t me = ranks->share().rank;
        const at::NoGradGuard no_grad;
        for (std::int32_t owner = 0; owner < ranks->share().size; ++owner) {
          for (std::size_t p = 0; p < gradients.size(); ++p) {
            const models::Parameter& parameter = model->parameters()[p];
            const bool changes = owner == me || !parameter.cut.is_part();
            for (const bool last : {false, true}) {
              const std::int64_t at = last ? parameter.tensor.numel() - 1 : 0;
              double& value = parameter.tensor.data_ptr<double>()[at];
              const double middle = value;
              const auto loss_at = [&](double offset) {
                if (changes) value = middle + offset;
                return run(*model, one).sum.item<double>();
              };
              const double slope = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
              value = middle;
              if (owner != me || !gradients[p].defined()) continue;
              EXPECT_NEAR(gradients[p].contiguous().data_ptr<double>()[at], slope,
                          1e-6 * (1 + std::abs(slope)))
                  << parameter.name << " " << at << " on rank " << me;
            }
          }
        }
      },
      one.sequence);
}

models::GptSpec gpt(bool tied) {
  return {.vocabulary = 11,
          .context = kPositions,
          .width = 12,
          .layers = 2,
          .heads = 4,
          .hidden = 7,
          .dropout = 0.2,
          .tied_head = tied};
}

models::LlamaSpec llama(std::int64_t kv_heads) {
  return {.vocabulary = 11,
          .context = kPositions,
          .width = 16,
          .layers = 2,
          .heads = 8,
          .kv_heads = kv_heads,
          .hidden = 9,
          .dropout = 0.2};
}

// Each expert in parts.
models::MoeSpec cut_mixture(std::variant<models::GptSpec, models::LlamaSpec> body,
                            std::optional<double> capacity_factor = {}) {
  return {.body = std::move(body),
          .experts = 4,
          .experts_per_token = 2,
          .capacity_factor = capacity_factor};
}

models::MlpSpec mlp(std::vector<std::int64_t> hidden) {
  return {.inputs = 6, .hidden = std::move(hidden), .classes = 5, .dropout = 0.2};
}

using models::NormKind;

// Of two stages: the second has a stride and a convolution in its shortcut.
models::ResNetSpec resnet(NormKind norm, std::vector<std::int64_t> channels,
                          bool channels_last = true) {
  return {.input_channels = 2,
          .channels = std::move(channels),
          .classes = 5,
          .norm = norm,
          .dropout = 0.2,
          .channels_last = channels_last};
}

const models::AdapterSpec kAdapters{.rank = 2, .dropout = 0.3};

// Shares of unequal size where the number of ranks does not divide them.
INSTANTIATE_TEST_SUITE_P(
    Models, CutModel,
    testing::Combine(
        testing::Values(CutCase{"gpt", gpt(false)}, CutCase{"gpt_tied", gpt(true), 0.3},
                        CutCase{"gpt_frozen", gpt(true), 0, {"embedding.token.weight"}},
                        CutCase{"llama", llama(8)}, CutCase{"llama_grouped", llama(4), 0.1},
                        CutCase{"gpt_sequence", gpt(true), 0, {}, true},
                        CutCase{"llama_sequence", llama(4), 0.1, {}, true},
                        CutCase{"gpt_adapters", gpt(true), 0.1, {}, false, kAdapters},
                        CutCase{"llama_adapters", llama(4), 0, {}, false, kAdapters},
                        CutCase{"llama_adapters_sequence", llama(4), 0, {}, true, kAdapters},
                        CutCase{"moe", cut_mixture(gpt(true))},
                        CutCase{"moe_llama_capacity", cut_mixture(llama(4), 0.5)},
                        CutCase{"mlp_adapters", mlp({7, 8}), 0, {}, false, kAdapters},
                        CutCase{"resnet", resnet(NormKind::kBatch, {5, 7})},
                        CutCase{"resnet_contiguous", resnet(NormKind::kBatch, {4, 8}, false), 0.1},
                        CutCase{"resnet_group", resnet(NormKind::kGroup, {4, 12}), 0.1},
                        CutCase{"resnet_no_norm", resnet(NormKind::kNone, {5, 6})},
                        CutCase{"resnet_frozen",
                                resnet(NormKind::kBatch, {4, 5}),
                                0,
                                {"stem.conv.weight", "stem.norm.weight", "stem.norm.bias",
                                 "stage0_block0.conv1.weight"}},
                        CutCase{"mlp", mlp({7})}, CutCase{"mlp_two", mlp({7, 8}), 0.1},
                        CutCase{"mlp_three", mlp({5, 8, 9})}),
        testing::Values(1, 2, 3, 4)),
    name_of);

TEST(CutTensors, SumsSixteenBitsInF32) {
  on_tensor_ranks(3, [](const std::shared_ptr<TensorRanks>& ranks) {
    const float own[] = {256.0F, 0.6F, 0.6F};  // in bf16 256 + 0.6 is 256
    const auto partial = torch::full({2}, own[ranks->share().rank], torch::kBFloat16);
    const auto sum = models::sum_over_ranks(partial, ranks.get());
    EXPECT_EQ(sum.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(sum[0].item<float>(), 258.0F);
  });
}

TEST(CutTensors, KeepsLogitsThatAreFarApartFinite) {
  on_tensor_ranks(2, [](const std::shared_ptr<TensorRanks>& ranks) {
    const auto whole = torch::tensor({{1e4F, -1e4F, 0.0F}, {-1e4F, 9e3F, 1e4F}});
    const Share own = models::share_of(3, 0, ranks->share());
    const auto logits = whole.narrow(1, own.begin, own.size()).clone().requires_grad_();
    const auto loss = models::cross_entropy_over_ranks(logits, torch::tensor({0, 1}), 3, 0, *ranks);
    EXPECT_EQ(loss.sum.item<float>(), 1e3F);
    EXPECT_EQ(loss.correct.item<std::int64_t>(), 1);
    EXPECT_TRUE(torch::autograd::grad({loss.sum}, {logits})[0].isfinite().all().item<bool>());
  });
}

TEST(CutTensors, RefusesTargetsAndTokensThatAreNone) {
  on_tensor_ranks(2, [](const std::shared_ptr<TensorRanks>& ranks) {
    EXPECT_THROW(
        models::cross_entropy_over_ranks(torch::zeros({1, 2}), torch::tensor({4}), 4, 0, *ranks),
        c10::Error);
    EXPECT_THROW(models::embed_over_ranks(torch::zeros({2, 3}), torch::tensor({4}), 4, ranks.get()),
                 c10::Error);
  });
}

TEST(CutTensors, SaysWhatCannotBeCut) {
  const auto why = [](const models::ModelSpec& spec, std::int32_t size, bool sequence = false) {
    const auto ranks =
        std::make_shared<TensorRanks>(models::TensorShare{0, size}, comm::OpOptions{}, sequence);
    const auto outcome = (*models::create_model(spec))->split(ranks);
    return outcome ? std::string("can be") : outcome.error().message;
  };
  EXPECT_EQ(why(models::ResNetSpec{}, 16), "can be");
  EXPECT_NE(why(models::ResNetSpec{}, 17).find("conv1.weight can be cut into 16 parts at most"),
            std::string::npos);
  EXPECT_NE(why(resnet(NormKind::kGroup, {12}), 5).find("conv1.weight can be cut into 4 parts"),
            std::string::npos);
  EXPECT_NE(why(mlp({}), 2).find("none of its tensors can be cut"), std::string::npos);
  EXPECT_NE(why(mlp({2}), 3).find("layer0.linear.weight can be cut into 2 parts"),
            std::string::npos);
  EXPECT_NE(why(llama(2), 4).find("can be cut into 2 parts at most, not into 4"),
            std::string::npos);
  EXPECT_EQ(why(cut_mixture(gpt(true)), 2), "can be");
  EXPECT_NE(why(cut_mixture(gpt(true)), 2, true).find("which tokens an expert takes"),
            std::string::npos);
}

// What a rank keeps and reports of running statistics is of its channels; it computes with those.
TEST(CutTensors, HaveTheStatisticsOfTheirChannels) {
  const CutCase one{"resnet", resnet(NormKind::kBatch, {5, 7})};
  const auto report = [&](Model& model) {
    std::vector<at::Tensor> statistics;
    models::PassContext context{.random = RandomStream(1, "pass"), .statistics = &statistics};
    model.forward(inputs_of(one.model), context);
    return statistics;
  };
  const auto evaluate = [&](Model& model) {
    models::PassContext context{.training = false, .random = RandomStream(1, "none")};
    return model.forward(inputs_of(one.model), context).detach();
  };
  const auto whole = make(one);
  const std::vector<at::Tensor> expected = report(*whole);
  whole->apply_statistics(expected);
  const at::Tensor outputs = evaluate(*whole);
  on_tensor_ranks(3, [&](const std::shared_ptr<TensorRanks>& ranks) {
    const auto model = make(one);
    ASSERT_TRUE(model->split(ranks));
    const std::vector<at::Tensor> found = report(*model);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const models::Statistic& statistic = model->statistics()[i];
      EXPECT_EQ(statistic.cut.is_part(), statistic.name.find(".norm1.") != std::string::npos);
      expect_close(found[i], part_of(expected[i], statistic.cut), kRounding, statistic.name);
    }
    model->apply_statistics(found);
    expect_close(evaluate(*model->replicate()), outputs, kRounding, "outputs");
    EXPECT_EQ(model->replicate()->statistics()[2].cut.runs, model->statistics()[2].cut.runs);
  });
}

// A part starts with the numbers that the whole would have there.
void expect_starts_as_the_whole(const models::AdapterSpec& adapters) {
  const auto whole = *models::create_model(gpt(true), adapters);
  whole->initialize(7);
  for (std::int32_t rank = 0; rank < 3; ++rank) {
    const auto ranks =
        std::make_shared<TensorRanks>(models::TensorShare{rank, 3}, comm::OpOptions{});
    const auto model = *models::create_model(gpt(true), adapters);
    ASSERT_TRUE(model->split(ranks));
    model->initialize(7);
    for (std::size_t p = 0; p < model->parameters().size(); ++p) {
      const models::Parameter& parameter = model->parameters()[p];
      EXPECT_TRUE(
          torch::equal(parameter.tensor, part_of(whole->parameters()[p].tensor, parameter.cut)))
          << parameter.name;
    }
  }
}

TEST(CutTensors, StartsAsTheWhole) {
  expect_starts_as_the_whole({});
  expect_starts_as_the_whole(kAdapters);
}

}  // namespace
}  // namespace muster::parallel
