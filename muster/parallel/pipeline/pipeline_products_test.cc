// Stages, parts of tensors and shared sequences at once: the bits of as many parts and sharers
// without stages, and but for rounding what one rank alone comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "muster/models/create.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"
#include "muster/parallel/testing/zero_stage.h"

namespace muster::parallel::cut {
namespace {

using layout::Axis;
using layout::PipelineKind;
using models::ContextAttention;

constexpr int kStepsOfProducts = 6;
constexpr std::int64_t kPositions = 12;  // a multiple of 2 · 3

struct Product {
  Recipe recipe;
  std::int32_t tensor = 1, context = 1, shards = 1;  // besides the recipe's replicas
  std::vector<std::int32_t> blocks = {};             // of each chunk; none: no stages
  std::int32_t chunks = 1;                           // of each stage
  PipelineKind schedule = PipelineKind::k1F1B;
  bool sequence = false;  // TogetherOptions::cuts_sequence
  ContextAttention attention = ContextAttention::kRing;
  // How far a tensor may be from that of one rank, for its largest value.
  double tolerance = 2e-5;
  int zero_stage = 1;  // without stages

  std::int32_t stages() const {
    return blocks.empty() ? 1 : static_cast<std::int32_t>(blocks.size()) / chunks;
  }
  std::int32_t ranks() const { return stages() * tensor * context * shards * recipe.replicas; }
  TogetherOptions together() const { return {sequence, attention, {}}; }
};
void PrintTo(const Product& task, std::ostream* out) { *out << task.recipe.name; }

MeshPlace place_of(const Product& task, const comm::Group& group) {
  layout::MeshExtents extents;
  extents[Axis::kPipeline] = task.stages();
  extents[Axis::kShard] = task.shards;
  extents[Axis::kContext] = task.context;
  extents[Axis::kTensor] = task.tensor;
  return place_in(extents, group).value();
}

// `op`: of what has stages.
using Made = Result<std::unique_ptr<ModelStrategy>>;

Made make_staged(const Product& task, const comm::Group& group, const comm::OpOptions& op) {
  const auto blocks = std::accumulate(task.blocks.begin(), task.blocks.end(), 0);
  const SliceOptions plain = options_of(task.recipe);
  PipelineOptions options;
  options.schedule.kind = task.schedule;
  options.schedule.stages = task.stages();
  options.schedule.chunks_per_stage = task.chunks;
  options.chunks = *layout::partition_by_hand(
      task.blocks, {blocks, static_cast<std::int32_t>(task.blocks.size())});
  options.passes = {plain.micro_batch_size, plain.seed};
  options.max_grad_norm = plain.max_grad_norm;
  options.compute = plain.compute;
  options.bucket_sizes = plain.bucket_sizes;
  options.together = task.together();
  options.op = op;
  const auto whole = recomputed_model_of(task.recipe);
  MUSTER_ASSIGN(auto pipeline, Pipeline::create(*whole, kSeed, optimizer_of(task.recipe), options,
                                                place_of(task, group), system_clock()));
  return pipeline;
}

Made make_product(const Product& task, const comm::Group& group, const comm::OpOptions& op = {}) {
  if (!task.blocks.empty()) return make_staged(task, group, op);
  MUSTER_ASSIGN(auto strategy,
                SharedSlices::create(recomputed_model_of(task.recipe), task.together(),
                                     optimizer_of(task.recipe),
                                     in_stage(task.zero_stage, options_of(task.recipe)),
                                     place_of(task, group), system_clock()));
  return strategy;
}

std::vector<Outcome> train_product(const Product& task) {
  return train_ranks(task.ranks(), [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto strategy = make_product(task, communicator->group());
    EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
    return strategy ? train(**strategy, communicator, task.recipe, kStepsOfProducts) : Outcome{};
  });
}

class MeshProducts : public testing::TestWithParam<Product> {
 protected:
  static const std::vector<Outcome>& ranks() {
    static Trained trained;
    return trained.once(GetParam().recipe.name, [] { return train_product(GetParam()); });
  }
};

TEST_P(MeshProducts, AreThatOfOneRankButForRounding) {
  const double tolerance = GetParam().tolerance;
  const Outcome plain = train_plain(GetParam().recipe, kStepsOfProducts);
  EXPECT_EQ(ranks().front().order, plain.order);
  for (const auto& [name, tensor] : plain.state) {
    const double largest = std::max(tensor.abs().max().item<double>(), 1e-3);
    const at::Tensor& found = ranks().front().state.at(name);
    EXPECT_LT((found - tensor).abs().max().item<double>() / largest, tolerance) << name;
  }
  for (const Outcome& rank : ranks()) {
    expect_same_figures(rank, ranks().front());  // all decide alike
    EXPECT_NEAR(rank.loss, plain.loss, tolerance * plain.loss);
    EXPECT_NEAR(rank.grad_norm, plain.grad_norm, 10 * tolerance * plain.grad_norm);
    EXPECT_NEAR(rank.evaluation, plain.evaluation, tolerance * plain.evaluation);
    EXPECT_TRUE(rank.stopped);
  }
}

TEST_P(MeshProducts, HaveTheBitsOfAsManyWithoutStagesShardsAndReplicas) {
  Product task = GetParam();
  task.blocks.clear();
  task.chunks = task.shards = task.recipe.replicas = task.zero_stage = 1;
  task.recipe.recompute = {};
  const Outcome fewer = train_product(task).front();
  expect_same_state(ranks().front(), fewer);
  expect_same_figures(ranks().front(), fewer);
}

models::GptSpec some_gpt(bool tied) {
  models::GptSpec spec = gpt(3, tied);
  spec.context = kPositions;
  return spec;
}

models::MoeSpec some_moe() {
  return {.body = some_gpt(true),
          .experts = 4,
          .experts_per_token = 2,
          .balance_loss = 0.1,
          .z_loss = 0.01};
}

Recipe product_recipe(std::string name, models::ModelSpec model, std::int32_t replicas = 1) {
  return {.name = std::move(name),
          .model = std::move(model),
          .replicas = replicas,
          .optimizer = kSteady};
}

INSTANTIATE_TEST_SUITE_P(
    Of, MeshProducts,
    testing::Values(
        Product{
            .recipe = product_recipe("mlp_stages_parts", mlp(), 2), .tensor = 2, .blocks = {2, 2}},
        Product{.recipe = {.name = "resnet_stages_parts",
                           .model = resnet_with(models::NormKind::kBatch),
                           .optimizer = optim::SgdSpec{.momentum = 0.9}},
                .tensor = 3,
                .shards = 2,
                .blocks = {2, 2},
                .tolerance = kSwitchedRelus},
        Product{.recipe = {.name = "resnet_zb_h1_parts",
                           .model = resnet_with(models::NormKind::kBatch),
                           .micro_batch_size = 3,
                           .optimizer = optim::SgdSpec{.momentum = 0.9}},
                .tensor = 2,
                .blocks = {1, 1, 2},
                .schedule = PipelineKind::kZbH1,
                .tolerance = kSwitchedRelus},
        Product{.recipe = product_recipe("gpt_stages_parts", some_gpt(true)),
                .tensor = 3,
                .shards = 2,
                .blocks = {2, 1, 2}},
        Product{.recipe = product_recipe("llama_stages_parts_sequence", grouped_llama(kPositions)),
                .tensor = 2,
                .shards = 2,
                .blocks = {2, 2},
                .sequence = true},
        Product{.recipe = {.name = "gpt_zb_v_parts",
                           .model = some_gpt(true),
                           .micro_batch_size = 3,
                           .optimizer = kSteady,
                           .freeze = {"layer0*"},
                           .average = 0.9},
                .tensor = 2,
                .blocks = {1, 1, 2, 1},
                .chunks = 2,
                .schedule = PipelineKind::kZbV},
        Product{.recipe = {.name = "gpt_zb_h1_parts_bf16",
                           .model = some_gpt(false),
                           .optimizer = kSteady,
                           .compute = kBF16,
                           .recompute = {"layer1"}},
                .tensor = 2,
                .blocks = {2, 1, 2},
                .schedule = PipelineKind::kZbH1,
                .tolerance = 0.1},  // processors differ in how they multiply 16 bits
        Product{.recipe = {.name = "gpt_stages_parts_lamb",
                           .model = some_gpt(true),
                           .optimizer = optim::LambSpec{.epsilon = 1e-3, .weight_decay = 0.1}},
                .tensor = 2,
                .shards = 2,
                .blocks = {2, 1, 2}},
        Product{.recipe = {.name = "gpt_zb_h1_parts_ring_adapters",
                           .model = some_gpt(true),
                           .optimizer = optim::SgdSpec{.momentum = 0.9},
                           .adapters = {.rank = 2, .dropout = 0.1}},
                .tensor = 2,
                .context = 2,
                .blocks = {2, 3},
                .schedule = PipelineKind::kZbH1},
        Product{.recipe = product_recipe("gpt_parts_ring", some_gpt(true), 2),
                .tensor = 2,
                .context = 2},
        Product{.recipe = product_recipe("llama_parts_ulysses", grouped_llama(kPositions)),
                .tensor = 2,
                .context = 3,
                .shards = 2,
                .attention = ContextAttention::kUlysses},
        Product{.recipe = product_recipe("gpt_parts_ring_gradients_in_shards", some_gpt(true)),
                .tensor = 2,
                .context = 2,
                .shards = 2,
                .zero_stage = 2},
        Product{.recipe = product_recipe("gpt_parts_ring_weights_in_shards", some_gpt(false)),
                .tensor = 2,
                .context = 2,
                .shards = 2,
                .zero_stage = 3},
        Product{.recipe = {.name = "llama_ulysses_weights_in_shards_twice",
                           .model = grouped_llama(kPositions),
                           .replicas = 2,
                           .micro_batch_size = 2,
                           .optimizer = kSteady,
                           .freeze = {"layer0*"},
                           .average = 0.9},
                .context = 3,
                .shards = 2,
                .attention = ContextAttention::kUlysses,
                .zero_stage = 3},
        Product{.recipe = product_recipe("moe_parts_gradients_in_shards", some_moe()),
                .tensor = 2,
                .shards = 2,
                .zero_stage = 2},
        Product{.recipe = product_recipe("moe_parts_weights_in_shards_twice", some_moe(), 2),
                .tensor = 2,
                .shards = 2,
                .zero_stage = 3},
        Product{.recipe = product_recipe("moe_stages_parts", some_moe(), 2),
                .tensor = 2,
                .blocks = {2, 3}},
        Product{.recipe = product_recipe("moe_zb_v_parts_in_shards", some_moe()),
                .tensor = 3,
                .shards = 2,
                .blocks = {1, 1, 2, 1},
                .chunks = 2,
                .schedule = PipelineKind::kZbV},
        Product{.recipe = product_recipe("gpt_stages_ring", some_gpt(true)),
                .context = 2,
                .shards = 2,
                .blocks = {2, 1, 2}},
        Product{
            .recipe = product_recipe("llama_interleaved_parts_ulysses", grouped_llama(kPositions)),
            .tensor = 2,
            .context = 3,
            .blocks = {1, 1, 1, 1},
            .chunks = 2,
            .schedule = PipelineKind::kInterleaved,
            .attention = ContextAttention::kUlysses},
        Product{.recipe = {.name = "gpt_stages_parts_ring_fp16",
                           .model = some_gpt(true),
                           .optimizer = kSteady,
                           .compute = kFP16,
                           .reduce = DType::kBF16},
                .tensor = 2,
                .context = 2,
                .blocks = {2, 3},
                .tolerance = 0.05}),
    [](const auto& which) { return which.param.recipe.name; });

TEST(MeshProduct, HoldsItsPartOfItsStageOnly) {
  const Product task{
      .recipe = product_recipe("gpt", some_gpt(true)), .tensor = 2, .blocks = {2, 3}};
  const std::int64_t whole = model_of(task.recipe)->parameter_count();
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const auto made = make_product(task, {.rank = Rank{rank}, .size = 4}).value();
    EXPECT_EQ(made->parameter_count(), whole);
    EXPECT_LT(made->model().parameter_count(), whole / 2);
    EXPECT_FALSE(made->holds_all());
    EXPECT_EQ(made->ranks_per_replica(), 4);
    EXPECT_EQ(made->first_of_replica(Rank{rank}), Rank{0});
  }
}

// The last part of the last stage is gone: so is the step, on every rank.
TEST(MeshProduct, EndsWhereARankDoesNotCome) {
  const Product task{
      .recipe = product_recipe("gpt", some_gpt(true)), .tensor = 2, .blocks = {2, 3}};
  on_ranks(4, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool waits = communicator->group().rank != Rank{3};
    const auto timeout = std::chrono::milliseconds(waits ? 300 : 30000);
    const auto strategy =
        make_product(task, communicator->group(), {.timeout = timeout, .label = {}}).value();
    const comm::LeafOwners owners = owners_of(*strategy, 4);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    if (!waits) return;
    const Batch batch(40, slices_of(owners, Rank{0}), 3, Batch::Content::kTokens, kPositions);
    const auto report = strategy->step({.batch = batch.step,
                                        .step = Step{1},
                                        .learning_rate = 0.02,
                                        .flags = {},
                                        .before_update = {}});
    EXPECT_FALSE(report);
  });
}

}  // namespace
}  // namespace muster::parallel::cut
