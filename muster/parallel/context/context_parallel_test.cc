// Training over ranks that each have a part of every sequence comes to what one rank alone does,
// but for rounding; how many replicas there are changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "muster/comm/backend/loopback/loopback.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"

namespace muster::parallel {
namespace {

using models::ContextAttention;

constexpr int kContextSteps = 10;
constexpr std::int64_t kLongContext = 24;  // a multiple of 2 · 2, 2 · 3 and 2 · 4

struct SharedRecipe {
  cut::Recipe recipe;
  struct Cut {
    std::int32_t ranks = 1;
    ContextAttention attention = ContextAttention::kRing;
  } cut;
  // How far a tensor may be from the other one, for its largest value; 10 steps in f32.
  double tolerance = 2e-5;
  std::int32_t shards = 1;
};
std::string name_of_training(const testing::TestParamInfo<SharedRecipe>& info) {
  return info.param.recipe.name;
}
void PrintTo(const SharedRecipe& recipe, std::ostream* out) { *out << recipe.recipe.name; }

Result<std::unique_ptr<SharedSlices>> make_shared_strategy(const SharedRecipe& shared,
                                                           const comm::Group& group,
                                                           const comm::OpOptions& op = {}) {
  SliceOptions options = cut::options_of(shared.recipe);
  options.op = op;
  MUSTER_ASSIGN(
      const MeshPlace place,
      cut::place_in(cut::along(layout::Axis::kContext, shared.cut.ranks, shared.shards), group));
  return SharedSlices::create(cut::recomputed_model_of(shared.recipe),
                              {.attention = shared.cut.attention, .op = op},
                              cut::optimizer_of(shared.recipe), options, place, system_clock());
}

std::vector<cut::Outcome> train_shared(const SharedRecipe& shared) {
  return cut::train_ranks(shared.cut.ranks * shared.shards * shared.recipe.replicas,
                          [&](const std::shared_ptr<comm::Communicator>& communicator) {
                            auto strategy = make_shared_strategy(shared, communicator->group());
                            EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
                            return strategy ? cut::train(**strategy, communicator, shared.recipe,
                                                         kContextSteps)
                                            : cut::Outcome{};
                          });
}

double share_apart(const at::Tensor& found, const at::Tensor& wanted) {
  const double largest = wanted.abs().max().item<double>();
  return (found - wanted).abs().max().item<double>() / std::max(largest, 1e-3);
}

class ContextParallelTraining : public testing::TestWithParam<SharedRecipe> {
 protected:
  static const std::vector<cut::Outcome>& ranks() {
    static cut::Trained trained;
    return trained.once(GetParam().recipe.name, [] { return train_shared(GetParam()); });
  }
};

TEST_P(ContextParallelTraining, IsThatOfOneRankButForRounding) {
  const cut::Recipe& recipe = GetParam().recipe;
  const double tolerance = GetParam().tolerance;
  const cut::Outcome plain = cut::train_plain(recipe, kContextSteps);
  const std::vector<cut::Outcome>& ranks = this->ranks();
  ASSERT_EQ(ranks.front().order, plain.order);
  for (const auto& [name, tensor] : plain.state)
    EXPECT_LT(share_apart(ranks.front().state.at(name), tensor), tolerance) << name;
  for (const cut::Outcome& rank : ranks) {
    EXPECT_NEAR(rank.loss, plain.loss, tolerance * plain.loss);
    EXPECT_NEAR(rank.grad_norm, plain.grad_norm, tolerance * plain.grad_norm * 10);
    EXPECT_NEAR(rank.evaluation, plain.evaluation, tolerance * plain.evaluation);
    EXPECT_NEAR(rank.average_evaluation, plain.average_evaluation, tolerance * plain.evaluation);
    EXPECT_EQ(rank.overflows, plain.overflows);
    EXPECT_TRUE(rank.stopped);
  }
}

TEST_P(ContextParallelTraining, HasTheSameWeightsAndFiguresOnAllRanks) {
  const std::vector<cut::Outcome>& ranks = this->ranks();
  for (const cut::Outcome& rank : ranks) {
    cut::expect_same_figures(rank, ranks.front());
    ASSERT_EQ(rank.own.size(), ranks.front().own.size());
    for (const auto& [name, tensor] : ranks.front().own)
      EXPECT_TRUE(cut::same_bits(rank.own.at(name), tensor)) << name;
  }
}

TEST_P(ContextParallelTraining, HasTheSameBitsWithAnyNumberOfReplicas) {
  SharedRecipe shared = GetParam();
  const std::vector<cut::Outcome>& ranks = this->ranks();
  shared.recipe.replicas = shared.recipe.replicas == 1 ? 3 : 1;
  shared.recipe.recompute = {};
  const std::vector<cut::Outcome> others = train_shared(shared);
  cut::expect_same_state(others.front(), ranks.front());
  cut::expect_same_figures(others.front(), ranks.front());
}

// Heads that can be dealt to 2, 3 and 4 ranks.
models::GptSpec long_gpt(bool tied) {
  models::GptSpec spec = cut::gpt(2, tied);
  spec.context = kLongContext;
  return spec;
}

models::LlamaSpec long_llama() {
  return {.vocabulary = 64,
          .context = kLongContext,
          .width = 48,
          .layers = 2,
          .heads = 24,
          .kv_heads = 12,
          .hidden = 40,
          .dropout = 0.1};
}

// As for cut tensors: a smaller epsilon would make rounding noise into steps.
constexpr optim::AdamWSpec kSharedAdamW{.epsilon = 1e-3, .weight_decay = 0.1};
constexpr auto kUlysses = ContextAttention::kUlysses;
constexpr auto kRing = ContextAttention::kRing;

cut::Recipe shared_recipe(std::string name, models::ModelSpec model) {
  return {.name = std::move(name), .model = std::move(model), .optimizer = kSharedAdamW};
}

INSTANTIATE_TEST_SUITE_P(
    Models, ContextParallelTraining,
    testing::Values(
        SharedRecipe{shared_recipe("gpt_ulysses_2", long_gpt(true)), {2, kUlysses}},
        SharedRecipe{shared_recipe("gpt_ulysses_3", long_gpt(false)), {3, kUlysses}},
        SharedRecipe{shared_recipe("gpt_ring_2", long_gpt(true)), {2, kRing}},
        SharedRecipe{shared_recipe("gpt_ring_3", long_gpt(false)), {3, kRing}},
        SharedRecipe{shared_recipe("gpt_ring_4", long_gpt(true)), {4, kRing}},
        SharedRecipe{shared_recipe("llama_ulysses_4", long_llama()), {4, kUlysses}},
        SharedRecipe{shared_recipe("llama_ring_3", long_llama()), {3, kRing}},
        SharedRecipe{{.name = "gpt_ulysses_2x2",
                      .model = long_gpt(true),
                      .replicas = 2,
                      .micro_batch_size = 2,
                      .optimizer = optim::SgdSpec{.nesterov = true}},
                     {2, kUlysses}},
        SharedRecipe{{.name = "llama_ring_2x2_lamb",
                      .model = long_llama(),
                      .replicas = 2,
                      .optimizer = optim::LambSpec{}},
                     {2, kRing}},
        SharedRecipe{{.name = "gpt_ring_averaged_smoothed_frozen",
                      .model = long_gpt(true),
                      .optimizer = kSharedAdamW,
                      .freeze = {"layer0*"},
                      .average = 0.9,
                      .smoothing = 0.2},
                     {2, kRing}},
        SharedRecipe{{.name = "gpt_ring_recomputed",
                      .model = long_gpt(true),
                      .optimizer = kSharedAdamW,
                      .recompute = {"*"}},
                     {2, kRing}},
        // Adapters begin at zero: their gradients are small against what rounds in them.
        SharedRecipe{{.name = "gpt_ulysses_adapted",
                      .model = long_gpt(true),
                      .optimizer = optim::SgdSpec{},
                      .adapters = {.rank = 2, .dropout = 0.2}},
                     {2, kUlysses},
                     1e-3},
        SharedRecipe{{.name = "gpt_ring_bf16",
                      .model = long_gpt(true),
                      .optimizer = kSharedAdamW,
                      .compute = cut::kBF16},
                     {2, kRing},
                     0.05},
        SharedRecipe{{.name = "llama_ring_fp16",
                      .model = long_llama(),
                      .optimizer = kSharedAdamW,
                      .compute = cut::kFP16},
                     {3, kRing},
                     0.01},
        SharedRecipe{{.name = "llama_ulysses_fp16",
                      .model = long_llama(),
                      .optimizer = kSharedAdamW,
                      .compute = cut::kFP16},
                     {3, kUlysses},
                     0.01}),
    name_of_training);

// Along `shard` each rank keeps another part of the optimizer's state.
TEST(ContextParallel, HasTheSameBitsInShards) {
  for (const auto& [attention, ranks, shards, replicas] :
       {std::tuple{kRing, 2, 2, 1}, {kUlysses, 3, 2, 2}, {kRing, 1, 3, 1}}) {
    SharedRecipe shared{{.name = "gpt",
                         .model = long_gpt(true),
                         .replicas = replicas * shards,
                         .optimizer = optim::LambSpec{},
                         .freeze = {"layer0*"},
                         .average = 0.9},
                        {ranks, attention}};
    const cut::Outcome whole = train_shared(shared).front();
    shared.recipe.replicas = replicas;
    shared.shards = shards;
    for (const cut::Outcome& rank : train_shared(shared)) cut::expect_same_figures(rank, whole);
    cut::expect_same_state(train_shared(shared).front(), whole);
  }
}

TEST(ContextParallel, OfOneRankHasTheBitsOfPlainTraining) {
  SharedRecipe shared{shared_recipe("gpt", long_gpt(true)), {1, kRing}};
  shared.recipe.replicas = 2;
  const cut::Outcome plain = cut::train_plain(shared.recipe, kContextSteps);
  const cut::Outcome found = train_shared(shared).front();
  cut::expect_same_state(found, plain);
  cut::expect_same_figures(found, plain);
}

// One step of `samples` whole sequences on each rank: what the first one says it sent.
std::uint64_t bytes_of_step(ModelStrategy& strategy,
                            const std::shared_ptr<comm::Communicator>& communicator,
                            const cut::Recipe& recipe, std::int64_t samples) {
  const comm::LeafOwners owners = cut::owners_of(strategy, communicator->group().size);
  EXPECT_TRUE(strategy.enter(communicator, owners));
  const Rank first = strategy.first_of_replica(communicator->group().rank);
  const Batch batch(samples, slices_of(owners, first), 1, content_of(recipe.model),
                    context_of(recipe.model));
  const auto report = strategy.step({.batch = batch.step,
                                     .step = Step{1},
                                     .learning_rate = 0.02,
                                     .flags = {},
                                     .before_update = {}});
  EXPECT_TRUE(report) << (report ? "" : report.error().message);
  return report ? report->bytes_reduced : 0;
}

// The gradients once, as with plain ranks, and the attention's formula for every layer.
TEST(ContextParallel, SendsTheGradientsAndWhatAttentionNeeds) {
  constexpr std::int64_t kSamples = 16, kRanks = 4;
  const models::LlamaSpec spec = long_llama();
  const cut::Recipe recipe = shared_recipe("llama", spec);
  const auto gradients = bytes_of_step(*make_shared_strategy({recipe, {1, kRing}}, {}).value(),
                                       comm::create_loopback(1).front(), recipe, kSamples);
  const std::int64_t row = kSamples * kLongContext / kRanks * (spec.width / spec.heads) * 4;
  for (const ContextAttention attention : {kUlysses, kRing}) {
    const std::int64_t layer = attention == kRing
                                   ? 3 * (kRanks - 1) * 2 * spec.kv_heads * row
                                   : 4 * (spec.heads + spec.kv_heads) * row / kRanks * (kRanks - 1);
    on_ranks(kRanks, [&](const std::shared_ptr<comm::Communicator>& communicator) {
      const auto strategy =
          make_shared_strategy({recipe, {kRanks, attention}}, communicator->group()).value();
      EXPECT_EQ(bytes_of_step(*strategy, communicator, recipe, kSamples),
                gradients + static_cast<std::uint64_t>(spec.layers * layer));
    });
  }
}

TEST(ContextParallel, HoldsTheWholeStateOnEachRank) {
  const auto strategy =
      make_shared_strategy({shared_recipe("gpt", long_gpt(true)), {2, kRing}}, {.size = 2}).value();
  EXPECT_TRUE(strategy->holds_all());
  EXPECT_EQ(strategy->ranks_per_replica(), 2);
  EXPECT_EQ(strategy->model().parameter_count(), strategy->parameter_count());
}

TEST(ContextParallel, RefusesModelsWithoutSequencesAndRanksThatAreNoMultiple) {
  const auto images =
      make_shared_strategy({shared_recipe("mlp", cut::mlp()), {2, kRing}}, {.size = 2});
  ASSERT_FALSE(images);
  EXPECT_EQ(images.error().code, ErrorCode::kUnsupported);
  const auto ranks =
      make_shared_strategy({shared_recipe("gpt", long_gpt(true)), {2, kRing}}, {.size = 3});
  ASSERT_FALSE(ranks);
  EXPECT_EQ(ranks.error().code, ErrorCode::kInvalid);
}

TEST(ContextParallel, NamesWhoDoesNotCome) {
  const SharedRecipe shared{shared_recipe("gpt", long_gpt(true)), {2, kRing}};
  cut::expect_names_who_does_not_come(
      [&](const comm::Group& group, const comm::OpOptions& op) {
        return make_shared_strategy(shared, group, op);
      },
      kLongContext);
}

}  // namespace
}  // namespace muster::parallel
