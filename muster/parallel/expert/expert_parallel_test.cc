// Training with experts dealt to ranks comes to what one rank alone does, bit by bit, and where
// tensors are in parts as well to what as many parts do; what travels is what is routed.
#include "muster/parallel/expert/expert_parallel.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/models/experts_over_ranks.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"

namespace muster::parallel {
namespace {

constexpr int kDealtSteps = 6;

struct DealtRecipe {
  cut::Recipe recipe;
  std::int32_t ranks = 2;
  std::int32_t shards = 1;
  std::int32_t parts = 1;  // of each tensor
};
std::string name_of_dealt(const testing::TestParamInfo<DealtRecipe>& info) {
  return info.param.recipe.name;
}
void PrintTo(const DealtRecipe& recipe, std::ostream* out) { *out << recipe.recipe.name; }

Result<std::unique_ptr<ExpertParallel>> make_dealt_strategy(const DealtRecipe& dealt,
                                                            const comm::Group& group,
                                                            const comm::OpOptions& op = {}) {
  SliceOptions options = cut::options_of(dealt.recipe);
  options.op = op;
  layout::MeshExtents extents = cut::along(layout::Axis::kExpert, dealt.ranks, dealt.shards);
  extents[layout::Axis::kTensor] = dealt.parts;
  MUSTER_ASSIGN(const MeshPlace place, cut::place_in(extents, group));
  return ExpertParallel::create(cut::recomputed_model_of(dealt.recipe),
                                cut::optimizer_of(dealt.recipe), options, place, system_clock());
}

std::vector<cut::Outcome> train_dealt(const DealtRecipe& dealt) {
  return cut::train_ranks(dealt.ranks * dealt.shards * dealt.parts * dealt.recipe.replicas,
                          [&](const std::shared_ptr<comm::Communicator>& communicator) {
                            auto strategy = make_dealt_strategy(dealt, communicator->group());
                            EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
                            return strategy ? cut::train(**strategy, communicator, dealt.recipe,
                                                         kDealtSteps)
                                            : cut::Outcome{};
                          });
}

class ExpertParallelTraining : public testing::TestWithParam<DealtRecipe> {};

TEST_P(ExpertParallelTraining, HasTheBitsOfOneRank) {
  const cut::Outcome plain = cut::train_plain(GetParam().recipe, kDealtSteps);
  const std::vector<cut::Outcome> ranks = train_dealt(GetParam());
  cut::expect_same_state(ranks.front(), plain);
  for (const cut::Outcome& rank : ranks) {
    cut::expect_same_figures(rank, plain);
    EXPECT_TRUE(rank.stopped);
    EXPECT_LE(rank.own.size(), plain.own.size());
    for (const auto& [name, tensor] : rank.own)
      EXPECT_TRUE(cut::same_bits(tensor, plain.own.at(name))) << name;
  }
}

models::MoeSpec mixture(std::int64_t per_token, std::optional<double> capacity_factor = {}) {
  models::GptSpec body = cut::gpt(2, true);
  body.context = kContext;
  return {.body = body,
          .experts = 8,
          .experts_per_token = per_token,
          .capacity_factor = capacity_factor,
          .balance_loss = 0.1,
          .z_loss = 0.01};
}

models::MoeSpec llama_mixture() {
  return {.body = models::LlamaSpec{.vocabulary = 64,
                                    .context = kContext,
                                    .width = 24,
                                    .layers = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .hidden = 20,
                                    .dropout = 0.1},
          .experts = 4,
          .experts_per_token = 2,
          .sparse_step = 2};
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExpertParallelTraining,
    testing::Values(
        DealtRecipe{{.name = "two_of_eight", .model = mixture(2)}, 2},
        DealtRecipe{{.name = "two_of_eight_on_8", .model = mixture(2)}, 8},
        DealtRecipe{{.name = "switch_with_capacity", .model = mixture(1, 1.0)}, 4},
        DealtRecipe{{.name = "capacity_2x2", .model = mixture(2, 0.5), .replicas = 2}, 2},
        DealtRecipe{{.name = "llama_2x4_sgd",
                     .model = llama_mixture(),
                     .replicas = 2,
                     .optimizer = optim::SgdSpec{.nesterov = true}},
                    4},
        DealtRecipe{{.name = "lamb_4x2",
                     .model = mixture(2),
                     .replicas = 4,
                     .optimizer = optim::LambSpec{}},
                    2},
        DealtRecipe{{.name = "averaged_smoothed_frozen",
                     .model = mixture(2),
                     .freeze = {"layer0*", "*experts.3*", "embedding*"},
                     .average = 0.9,
                     .smoothing = 0.2},
                    2},
        DealtRecipe{{.name = "frozen_experts", .model = mixture(2), .freeze = {"*experts.*"}}, 2},
        DealtRecipe{{.name = "recomputed", .model = mixture(2), .recompute = {"*"}}, 4},
        DealtRecipe{{.name = "bf16", .model = mixture(2), .compute = cut::kBF16}, 2},
        DealtRecipe{{.name = "fp16_recomputed",
                     .model = llama_mixture(),
                     .compute = cut::kFP16,
                     .recompute = {"layer1"}},
                    2},
        DealtRecipe{
            {.name = "reduced_in_bf16", .model = mixture(2), .replicas = 2, .reduce = DType::kBF16},
            2},
        DealtRecipe{{.name = "sharded", .model = mixture(2)}, 2, 2},
        DealtRecipe{{.name = "sharded_alone", .model = mixture(2)}, 1, 4},
        DealtRecipe{{.name = "sharded_lamb_averaged_frozen",
                     .model = mixture(2),
                     .replicas = 2,
                     .optimizer = optim::LambSpec{},
                     .freeze = {"layer0*", "*experts.3*"},
                     .average = 0.9},
                    2,
                    2},
        DealtRecipe{{.name = "sharded_frozen_experts_in_bf16",
                     .model = llama_mixture(),
                     .freeze = {"*experts.*"},
                     .reduce = DType::kBF16},
                    4,
                    2}),
    name_of_dealt);

// Ranks with a part of every tensor, of all experts as well.
std::vector<cut::Outcome> train_in_parts(cut::Recipe recipe, std::int32_t parts) {
  recipe.recompute = {};
  return cut::train_ranks(parts, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const MeshPlace place =
        cut::place_in(cut::along(layout::Axis::kTensor, parts), communicator->group()).value();
    const auto strategy = SharedSlices::create(cut::model_of(recipe), {}, cut::optimizer_of(recipe),
                                               cut::options_of(recipe), place, system_clock());
    EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
    return strategy ? cut::train(**strategy, communicator, recipe, kDealtSteps) : cut::Outcome{};
  });
}

class ExpertParallelInParts : public testing::TestWithParam<DealtRecipe> {};

TEST_P(ExpertParallelInParts, HasTheBitsOfAsManyPartsWithAllExperts) {
  const cut::Outcome parts = train_in_parts(GetParam().recipe, GetParam().parts).front();
  const std::vector<cut::Outcome> ranks = train_dealt(GetParam());
  cut::expect_same_state(ranks.front(), parts);
  for (const cut::Outcome& rank : ranks) {
    cut::expect_same_figures(rank, parts);
    EXPECT_TRUE(rank.stopped);
    for (const auto& [name, tensor] : rank.own)
      EXPECT_TRUE(cut::same_bits(tensor, parts.own.at(name))) << name;
  }
}

// A token whose experts are nearly equal may go to another one for a rounding.
TEST_P(ExpertParallelInParts, IsNearOneRank) {
  constexpr double kTolerance = 0.02;
  const cut::Outcome plain = cut::train_plain(GetParam().recipe, kDealtSteps);
  const cut::Outcome rank = train_dealt(GetParam()).back();
  EXPECT_NEAR(rank.loss, plain.loss, kTolerance * plain.loss);
  EXPECT_NEAR(rank.evaluation, plain.evaluation, kTolerance * plain.evaluation);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ExpertParallelInParts,
    testing::Values(DealtRecipe{{.name = "alone", .model = mixture(2)}, 2, 1, 2},
                    DealtRecipe{
                        {.name = "replicas", .model = mixture(1, 1.0), .replicas = 2}, 2, 1, 2},
                    DealtRecipe{{.name = "shards", .model = mixture(2)}, 2, 2, 2},
                    DealtRecipe{{.name = "three_parts", .model = mixture(2, 0.5)}, 2, 1, 3},
                    DealtRecipe{{.name = "llama_recomputed_in_bf16",
                                 .model = llama_mixture(),
                                 .compute = cut::kBF16,
                                 .recompute = {"*"}},
                                4,
                                1,
                                2},
                    DealtRecipe{{.name = "frozen_experts_in_fp16",
                                 .model = mixture(2),
                                 .freeze = {"*experts.*"},
                                 .compute = cut::kFP16},
                                2,
                                1,
                                2},
                    DealtRecipe{{.name = "lamb_averaged_frozen",
                                 .model = mixture(2),
                                 .optimizer = optim::LambSpec{},
                                 .freeze = {"layer0*", "*experts.3*"},
                                 .average = 0.9},
                                2,
                                2,
                                2}),
    name_of_dealt);

TEST(ExpertParallel, OfOneRankHasTheBitsOfPlainTraining) {
  DealtRecipe dealt{{.name = "moe", .model = mixture(2), .replicas = 2}, 1};
  const cut::Outcome plain = cut::train_plain(dealt.recipe, kDealtSteps);
  const cut::Outcome found = train_dealt(dealt).front();
  cut::expect_same_state(found, plain);
  cut::expect_same_figures(found, plain);
}

// Most tokens want the expert of one rank: exactly the routed rows travel.
TEST(ExpertParallel, SendsWhatIsRoutedAndNoPadding) {
  constexpr std::int64_t kWidth = 5, kMany = 100;
  constexpr std::int32_t kRanks = 4;
  on_ranks(kRanks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const std::int32_t me = to_int(communicator->group().rank);
    ExpertRanks ranks({me, kRanks}, {});
    ranks.use(communicator);
    std::vector<std::int64_t> counts(kRanks, 1);  // an expert on each
    counts[1] = kMany;
    counts[3] = 0;
    const std::int64_t rows = kMany + 2;
    const auto tokens = at::arange(rows * kWidth, at::kFloat).view({rows, kWidth}) + me * 1000;
    const models::ExpertsHere here{{me, me + 1},
                                   [&](std::int64_t expert, const at::Tensor& own) {
                                     EXPECT_EQ(expert, me);
                                     return own * (expert + 2);
                                   },
                                   [](std::int64_t) { return std::vector<at::Tensor>(); }};
    const auto leaf = tokens.clone().requires_grad_();
    const auto answers = models::compute_over_ranks(leaf, counts, here, ranks);
    EXPECT_TRUE(at::equal(answers.narrow(0, 0, 1), tokens.narrow(0, 0, 1) * 2));
    EXPECT_TRUE(at::equal(answers.narrow(0, 1, kMany), tokens.narrow(0, 1, kMany) * 3));
    EXPECT_TRUE(at::equal(answers.narrow(0, kMany + 1, 1), tokens.narrow(0, kMany + 1, 1) * 4));
    answers.sum().backward();
    EXPECT_TRUE(at::equal(leaf.grad().narrow(0, 1, kMany), at::full({kMany, kWidth}, 3.0f)));

    const std::int64_t away = rows - counts[static_cast<std::size_t>(me)];
    const std::int64_t foreign = (kRanks - 1) * counts[static_cast<std::size_t>(me)];
    // Tokens and gradients of their answers go there, answers and gradients of tokens come back.
    const auto routed = static_cast<std::uint64_t>((2 * away + 2 * foreign) * kWidth * 4);
    EXPECT_EQ(ranks.take_bytes(), routed + (kRanks - 1) * sizeof(std::int64_t));
  });
}

TEST(ExpertParallel, HoldsItsShareOfTheExperts) {
  const DealtRecipe dealt{{.name = "moe", .model = mixture(2)}, 4};
  const auto strategy = make_dealt_strategy(dealt, {.rank = Rank{1}, .size = 4}).value();
  EXPECT_FALSE(strategy->holds_all());
  EXPECT_EQ(strategy->ranks_per_replica(), 1);
  EXPECT_EQ(strategy->parameter_count(), cut::model_of(dealt.recipe)->parameter_count());
  for (const models::Parameter& parameter : strategy->model().expert_parameters())
    EXPECT_EQ(parameter.partition.expert / 2, 1) << parameter.name;
  EXPECT_EQ(strategy->model().expert_parameters().size(), 2u * 2 * 2 * 2)
      << "two experts of two layers with two matrices and their biases";
  EXPECT_LT(strategy->optimizer_bytes(4), strategy->parameter_count() * 8);
}

TEST(ExpertParallel, HoldsItsPartOfItsExperts) {
  const DealtRecipe dealt{{.name = "moe", .model = mixture(2)}, 4, 1, 2};
  const auto strategy = make_dealt_strategy(dealt, {.rank = Rank{3}, .size = 8}).value();
  EXPECT_FALSE(strategy->holds_all());
  EXPECT_EQ(strategy->ranks_per_replica(), 2);
  EXPECT_EQ(strategy->first_of_replica(Rank{3}), Rank{2});
  EXPECT_EQ(strategy->parameter_count(), cut::model_of(dealt.recipe)->parameter_count());
  for (const models::Parameter& parameter : strategy->model().expert_parameters()) {
    EXPECT_EQ(parameter.partition.expert / 2, 1) << parameter.name;
    EXPECT_EQ(parameter.cut.is_part(), !parameter.name.ends_with("contract.bias"))
        << parameter.name;
  }
}

void expect_refused(const DealtRecipe& dealt, std::int32_t size, const std::string& why) {
  const auto refused = make_dealt_strategy(dealt, {.size = size});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
}

TEST(ExpertParallel, RefusesWhatItCannotDeal) {
  expect_refused({{.name = "mlp", .model = cut::mlp()}, 2}, 2, "it has none");
  expect_refused({{.name = "three", .model = mixture(2)}, 3}, 3, "8 slices");
  models::MoeSpec six = mixture(2);
  six.experts = 6;
  expect_refused({{.name = "six", .model = six}, 4}, 4, "6 experts cannot be dealt evenly");
  expect_refused({{.name = "ranks", .model = mixture(2)}, 2}, 3, "");
  expect_refused({{.name = "micro", .model = mixture(2), .micro_batch_size = 2}, 2}, 2,
                 "micro-batches");
  expect_refused({{.name = "adapted", .model = mixture(2), .adapters = {.rank = 2}}, 2}, 2,
                 "adapters");
}

TEST(ExpertParallel, NamesWhoDoesNotCome) {
  const DealtRecipe dealt{{.name = "moe", .model = mixture(2)}, 2};
  cut::expect_names_who_does_not_come(
      [&](const comm::Group& group, const comm::OpOptions& op) {
        return make_dealt_strategy(dealt, group, op);
      },
      kContext);
}

}  // namespace
}  // namespace muster::parallel
