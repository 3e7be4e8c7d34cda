// The mixture of experts against the formula, token by token, and against differences.

#include "muster/models/experts.h"

#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <limits>
#include <numeric>

#include "muster/models/auxiliary_loss.h"
#include "muster/models/dispatch.h"
#include "muster/models/testing/gradient_check.h"

namespace muster::models {
namespace {

constexpr std::int64_t kWidth = 4;
constexpr std::int64_t kExperts = 3;

ExpertsOptions options_of(std::int64_t per_token, std::optional<double> capacity_factor) {
  return {.feed_forward = {.kind = FeedForwardKind::kSwiGlu, .width = kWidth, .hidden = 5},
          .experts = kExperts,
          .per_token = per_token,
          .capacity_factor = capacity_factor,
          .balance_loss = 0.3,
          .z_loss = 0.1};
}

struct BlockPass {
  torch::Tensor output;
  std::vector<torch::Tensor> statistics;
};

BlockPass run(Block& block, const torch::Tensor& input, bool training = true) {
  BlockPass pass;
  PassContext context{
      .training = training, .random = RandomStream(1, "test"), .statistics = &pass.statistics};
  pass.output = block.forward(input, context);
  return pass;
}

torch::Tensor parameter(const Block& block, const std::string& name) {
  for (const BlockParameter& own : block.parameters())
    if (own.name == name) return own.tensor;
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

// One token through one expert.
torch::Tensor answer(const Block& block, std::int64_t expert, const torch::Tensor& token) {
  const std::string prefix = "experts." + std::to_string(expert) + ".";
  const auto layer = [&](const std::string& name, const torch::Tensor& x) {
    return parameter(block, prefix + name + ".weight").matmul(x);
  };
  return layer("contract", torch::silu(layer("gate", token)) * layer("expand", token));
}

std::int64_t count_below(const std::vector<std::int64_t>& taken, std::int64_t expert) {
  return std::count(taken.begin(), taken.end(), expert);
}

class MixtureOf : public testing::TestWithParam<std::int64_t> {};

TEST_P(MixtureOf, ExpertsIsTheirWeightedSum) {
  const std::int64_t per_token = GetParam();
  Alone<Experts> block(options_of(per_token, std::nullopt));
  fill_in_double(block);
  const auto input = wavy({2, 7, kWidth});
  const auto output = run(block, input).output.flatten(0, 1);
  const auto tokens = input.flatten(0, 1);
  const auto router = parameter(block, "router.weight");
  for (std::int64_t t = 0; t < tokens.size(0); ++t) {
    const auto p = torch::softmax(router.matmul(tokens[t]), 0);
    const auto [weights, chosen] = p.topk(per_token);
    const auto total = per_token == 1 ? torch::ones({}, torch::kFloat64) : weights.sum();
    auto expected = torch::zeros({kWidth}, torch::kFloat64);
    for (std::int64_t j = 0; j < per_token; ++j)
      expected += weights[j] / total * answer(block, chosen[j].item<std::int64_t>(), tokens[t]);
    EXPECT_TRUE(torch::allclose(output[t], expected, 1e-12, 1e-14)) << "token " << t;
  }
}

TEST_P(MixtureOf, ExpertsHasTheGradientsOfDifferences) {
  for (const std::optional<double> capacity : {std::optional<double>(), std::optional(0.7)})
    for (const auto kind : {FeedForwardKind::kSwiGlu, FeedForwardKind::kGelu}) {
      ExpertsOptions options = options_of(GetParam(), capacity);
      options.feed_forward.kind = kind;
      options.feed_forward.bias = kind == FeedForwardKind::kGelu;
      Alone<Experts> block(options);
      expect_gradients(block, wavy({2, 9, kWidth}), [](const auto& statistics) {
        return 0.3 * statistics[2].template item<double>() +
               0.1 * statistics[3].template item<double>();
      });
    }
}

INSTANTIATE_TEST_SUITE_P(PerToken, MixtureOf, testing::Values(1, 2, 3));

TEST(Experts, DropWhatIsBeyondCapacityInTrainingOnly) {
  Alone<Experts> capped(options_of(1, 1.0)), free(options_of(1, std::nullopt));
  fill_in_double(capped);
  fill_in_double(free);
  const auto input = wavy({1, 12, kWidth});
  const auto with = run(capped, input), without = run(free, input);
  const auto load = with.statistics[0];
  const auto router = parameter(capped, "router.weight");
  std::vector<std::int64_t> seen;
  std::int64_t dropped = 0;
  for (std::int64_t t = 0; t < 12; ++t) {
    const auto expert = router.matmul(input[0][t]).argmax().item<std::int64_t>();
    const bool fits = count_below(seen, expert) < 12 / kExperts;
    seen.push_back(expert);
    dropped += fits ? 0 : 1;
    const auto expected = fits ? without.output[0][t] : torch::zeros({kWidth}, torch::kFloat64);
    EXPECT_TRUE(torch::allclose(with.output[0][t], expected, 1e-12, 1e-14)) << "token " << t;
  }
  ASSERT_GT(dropped, 0);
  EXPECT_DOUBLE_EQ(with.statistics[1].item<double>(), static_cast<double>(dropped) / 12);
  EXPECT_EQ(without.statistics[1].item<double>(), 0);
  EXPECT_TRUE(torch::equal(load, without.statistics[0])) << "the load is what was wanted";
  const auto evaluated = run(capped, input, /*training=*/false);
  EXPECT_TRUE(torch::allclose(evaluated.output, without.output, 1e-12, 1e-14));
  EXPECT_TRUE(evaluated.statistics.empty());
}

TEST(Experts, LossesAreThoseOfThePapers) {
  Alone<Experts> block(options_of(2, std::nullopt));
  fill_in_double(block);
  const auto input = wavy({3, 5, kWidth});
  const auto statistics = run(block, input).statistics;
  ASSERT_EQ(statistics.size(), block.statistics().size());
  const auto logits = input.flatten(0, 1).matmul(parameter(block, "router.weight").t());
  const auto probabilities = torch::softmax(logits, 1);
  const auto chosen = std::get<1>(logits.topk(2, 1));
  auto share = torch::zeros({kExperts}, torch::kFloat64);
  for (std::int64_t e = 0; e < kExperts; ++e) share[e] = chosen.eq(e).sum().item<double>() / 30;
  EXPECT_TRUE(torch::allclose(statistics[0], share));
  EXPECT_NEAR(statistics[2].item<double>(),
              kExperts * (share * probabilities.mean(0)).sum().item<double>(), 1e-14);
  EXPECT_NEAR(statistics[3].item<double>(),
              torch::logsumexp(logits, 1).square().mean().item<double>(), 1e-14);
}

// Where all scores are alike every token goes to the experts of lowest index; the loss is then at
// its even value, because no expert's probability stands out.
TEST(Experts, EvenScoresGoToTheFirst) {
  Alone<Experts> block(options_of(2, std::nullopt));
  fill_in_double(block);
  parameter(block, "router.weight").data().zero_();
  const auto statistics = run(block, wavy({1, 6, kWidth})).statistics;
  EXPECT_TRUE(torch::equal(statistics[0], torch::tensor({0.5, 0.5, 0.0}, torch::kFloat64)));
  EXPECT_NEAR(statistics[2].item<double>(), 1, 1e-14);
  const auto metrics = Experts::tell(statistics);
  EXPECT_EQ(metrics[0].name, "moe/load_imbalance");
  EXPECT_DOUBLE_EQ(metrics[0].value, 1.5);
}

// The balance loss alone pulls the busiest expert's scores down.
TEST(Experts, BalanceLossEvensTheLoadOut) {
  ExpertsOptions options = options_of(1, std::nullopt);
  options.balance_loss = 1;
  options.z_loss = 0;
  Alone<Experts> block(options);
  fill_in_double(block);
  auto router = parameter(block, "router.weight");
  const auto input = wavy({1, 300, kWidth}) + 1;
  {
    const at::NoGradGuard no_grad;
    router[1] += 1;  // wanted by most
  }
  const double before = run(block, input).statistics[0].max().item<double>();
  for (int step = 0; step < 200; ++step) {
    PassContext context{.random = RandomStream(1, "test"), .auxiliary_weight = 1};
    const auto output = block.forward(input, context);
    const auto gradient = torch::autograd::grad({output.sum() * 0}, {router})[0];
    const at::NoGradGuard no_grad;
    router -= gradient * 0.3;
  }
  const double after = run(block, input).statistics[0].max().item<double>();
  EXPECT_GT(before, 0.7);
  EXPECT_LT(after, before - 0.2);
}

TEST(Experts, ShortPrecisionDoesNotRoute) {
  Alone<Experts> block(options_of(2, std::nullopt));
  fill_in_double(block);
  for (const BlockParameter& own : block.parameters())
    own.tensor.set_data(own.tensor.to(torch::kFloat32));
  const auto input = wavy({1, 64, kWidth}).to(torch::kBFloat16);
  const auto wide = run(block, input.to(torch::kFloat32)).statistics;
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, torch::kBFloat16);
  const auto narrow = run(block, input);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(narrow.output.scalar_type(), torch::kBFloat16);
  for (std::size_t i = 0; i < wide.size(); ++i)
    EXPECT_TRUE(torch::equal(wide[i], narrow.statistics[i])) << "statistic " << i;
}

TEST(Dispatch, ThereAndBackIsTheSumOverChoices) {
  const std::vector<double> scores{2, 1, 0, 1, 2, 0, 1, 2, 0, 1, 0, 2};
  for (const std::optional<std::int64_t> capacity :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(2)}) {
    const Routing routing = route(scores, {.experts = 3, .per_token = 2, .capacity = capacity});
    const Dispatch dispatch(routing, 2, torch::kCPU);
    const auto tokens = wavy({4, 3}).requires_grad_();
    const auto rows = dispatch.to_experts(tokens);
    ASSERT_EQ(rows.size(0), std::ssize(routing.order));
    for (std::int64_t row = 0; row < rows.size(0); ++row)
      EXPECT_TRUE(torch::equal(rows[row], tokens[routing.order[row] / 2]));
    const auto back = dispatch.to_tokens(rows);
    auto kept = torch::zeros({8, 1}, torch::kFloat64);
    for (const std::int64_t assignment : routing.order) kept[assignment] = 1;
    kept = kept.view({4, 2, 1});
    EXPECT_TRUE(torch::equal(back, tokens.unsqueeze(1) * kept));
    const auto gradient =
        torch::autograd::grad({(back * wavy(back.sizes(), 1)).sum()}, {tokens})[0];
    EXPECT_TRUE(torch::equal(gradient, (wavy(back.sizes(), 1) * kept).sum(1)));
  }
}

TEST(AuxiliaryLoss, AddsItsGradientAndNothingElse) {
  const auto input = wavy({3, 2}).requires_grad_(), other = wavy({3, 2}, 1).requires_grad_();
  const auto loss = other.square().sum();
  const auto output = attach_loss(input * 2, loss, 0.5);
  EXPECT_TRUE(torch::equal(output, input * 2));
  const auto gradients = torch::autograd::grad({output.sum()}, {input, other});
  EXPECT_TRUE(torch::equal(gradients[0], torch::full({3, 2}, 2.0, torch::kFloat64)));
  EXPECT_TRUE(torch::allclose(gradients[1], other.detach()));
  EXPECT_TRUE(attach_loss(input, loss, 0).is_same(input));
}

}  // namespace
}  // namespace muster::models
