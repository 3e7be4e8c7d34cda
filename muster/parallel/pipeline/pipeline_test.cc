// A pipeline has the bits of plain data parallelism, whatever the stages, replicas and schedule.
#include "muster/parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "muster/models/create.h"
#include "muster/parallel/testing/cut_training.h"

namespace muster::parallel::cut {
namespace {

constexpr int kStepsOfPipelines = 3;

struct PipelineCase {
  Recipe recipe;
  std::vector<std::int32_t> blocks;  // of each chunk
  std::int32_t chunks = 1;           // of each stage
  layout::PipelineKind schedule = layout::PipelineKind::k1F1B;
  std::int32_t shards = 1;
  bool optimizer_first = false;
};
void PrintTo(const PipelineCase& task, std::ostream* out) { *out << task.recipe.name; }

PipelineOptions pipeline_options_of(const PipelineCase& task) {
  const auto chunks = static_cast<std::int32_t>(task.blocks.size());
  const auto blocks = std::accumulate(task.blocks.begin(), task.blocks.end(), 0);
  const SliceOptions plain = options_of(task.recipe);
  PipelineOptions options;
  options.schedule.kind = task.schedule;
  options.schedule.stages = chunks / task.chunks;
  options.schedule.chunks_per_stage = task.chunks;
  options.chunks = *layout::partition_by_hand(task.blocks, {blocks, chunks});
  options.passes = {plain.micro_batch_size, plain.seed};
  options.max_grad_norm = plain.max_grad_norm;
  options.optimizer_first = task.optimizer_first;
  options.compute = plain.compute;
  options.bucket_sizes = plain.bucket_sizes;
  return options;
}

std::vector<Outcome> train_pipeline(const PipelineCase& task) {
  const Recipe& recipe = task.recipe;
  const PipelineOptions options = pipeline_options_of(task);
  const auto train_rank = [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto whole = recomputed_model_of(recipe);
    const auto place =
        place_in(along(layout::Axis::kPipeline, options.schedule.stages, task.shards),
                 communicator->group());
    auto pipeline = Pipeline::create(*whole, kSeed, optimizer_of(recipe), options, place.value(),
                                     system_clock());
    EXPECT_TRUE(pipeline) << (pipeline ? "" : pipeline.error().message);
    return pipeline ? train(**pipeline, communicator, recipe, kStepsOfPipelines) : Outcome{};
  };
  return train_ranks(options.schedule.stages * task.shards * recipe.replicas, train_rank);
}

class PipelineBits : public testing::TestWithParam<PipelineCase> {};

TEST_P(PipelineBits, AreThoseOfPlainDataParallelism) {
  const Recipe& recipe = GetParam().recipe;
  const Outcome plain = train_plain(recipe, kStepsOfPipelines);
  const std::vector<Outcome> ranks = train_pipeline(GetParam());
  EXPECT_FALSE(plain.state.empty());
  EXPECT_EQ(plain.overflows.size(), loss_scale_of(recipe, kOverflow) ? 1U : 0U);
  expect_same_state(ranks.front(), plain);
  for (const Outcome& rank : ranks) {
    expect_same_figures(rank, plain);
    EXPECT_TRUE(rank.stopped);
  }
}

models::ResNetSpec resnet() {
  return {.input_channels = 1, .channels = {8, 16}, .blocks_per_stage = 1, .dropout = 0.2};
}

// Experts in the second and the fourth layer, some with no token at all in a micro-batch.
models::MoeSpec moe() {
  return {.body = models::LlamaSpec{.vocabulary = 64,
                                    .context = kContext,
                                    .width = 16,
                                    .layers = 4,
                                    .heads = 2,
                                    .hidden = 8,
                                    .dropout = 0.1,
                                    .tied_head = true},
          .experts = 12,
          .sparse_step = 2,
          .capacity_factor = 1.5};
}

using layout::PipelineKind;
constexpr auto kInterleaved = PipelineKind::kInterleaved;

const models::GptSpec kThreeLayers = gpt(3, true);

INSTANTIATE_TEST_SUITE_P(
    Models, PipelineBits,
    testing::Values(
        PipelineCase{{"mlp_1", mlp()}, {4}}, PipelineCase{{"mlp_2", mlp()}, {1, 3}},
        PipelineCase{{"mlp_4", mlp()}, {1, 1, 1, 1}}, PipelineCase{{"mlp_2x2", mlp(), 2}, {2, 2}},
        PipelineCase{{"mlp_2x3", mlp(), 3}, {2, 2}},
        PipelineCase{{"mlp_gpipe", mlp(), 1, 2}, {2, 1, 1}, 1, PipelineKind::kGPipe},
        PipelineCase{{"resnet_2", resnet()}, {2, 2}},
        PipelineCase{{"resnet_3", resnet()}, {1, 1, 2}},
        PipelineCase{{"resnet_chunks", resnet()}, {1, 1, 1, 1}, 2, kInterleaved},
        PipelineCase{{"gpt_2", gpt(3, false)}, {2, 3}},
        PipelineCase{{"gpt_tied", kThreeLayers, 2, 3}, {2, 1, 2}},
        PipelineCase{{"gpt_tied_chunks", kThreeLayers}, {1, 1, 2, 1}, 2, kInterleaved},
        PipelineCase{{"gpt_tied_alone", kThreeLayers}, {2, 3}, 2, kInterleaved},
        PipelineCase{{.name = "mlp_frozen",
                      .model = mlp(),
                      .replicas = 2,
                      .freeze = {"layer0*", "layer2.linear.bias"}},
                     {1, 2, 1}},
        PipelineCase{{.name = "gpt_tied_frozen",
                      .model = kThreeLayers,
                      .freeze = {"embedding.token*", "layer0*"}},
                     {2, 1, 2}},
        PipelineCase{
            {.name = "gpt_tied_average", .model = kThreeLayers, .replicas = 2, .average = 0.9},
            {2, 1, 2}},
        PipelineCase{{.name = "mlp_fp16", .model = mlp(), .replicas = 2, .compute = kFP16}, {2, 2}},
        PipelineCase{{.name = "resnet_bf16", .model = resnet(), .compute = kBF16}, {1, 1, 2}},
        PipelineCase{
            {.name = "gpt_bf16", .model = kThreeLayers, .micro_batch_size = 3, .compute = kBF16},
            {2, 1, 2}},
        PipelineCase{{.name = "gpt_fp16", .model = kThreeLayers, .replicas = 2, .compute = kFP16},
                     {2, 3}},
        PipelineCase{{"moe", moe(), 2, 3}, {2, 2, 2}},
        PipelineCase{{"moe_chunks", moe()}, {1, 2, 1, 2}, 2, kInterleaved},
        PipelineCase{{.name = "moe_fp16", .model = moe(), .compute = kFP16, .recompute = {"*"}},
                     {3, 3}},
        PipelineCase{
            {.name = "gpt_adapters",
             .model = kThreeLayers,
             .replicas = 2,
             .adapters = {.rank = 2, .dropout = 0.2, .target_modules = {"layer1.*", "*.qkv"}},
             .recompute = {"layer1"}},
            {2, 1, 2}},
        PipelineCase{{"mlp_zb_h1", mlp(), 1, 2}, {2, 1, 1}, 1, PipelineKind::kZbH1},
        PipelineCase{{"resnet_zb_h1", resnet(), 2}, {2, 2}, 1, PipelineKind::kZbH1},
        PipelineCase{{"resnet_zb_v", resnet()}, {1, 1, 1, 1}, 2, PipelineKind::kZbV},
        PipelineCase{{"gpt_zb_h1", kThreeLayers, 2, 3}, {2, 1, 2}, 1, PipelineKind::kZbH1},
        PipelineCase{{"gpt_zb_v", kThreeLayers, 2}, {1, 1, 2, 1}, 2, PipelineKind::kZbV},
        PipelineCase{{.name = "gpt_zb_h1_adapters",
                      .model = kThreeLayers,
                      .freeze = {"embedding.token*"},
                      .adapters = {.rank = 2, .target_modules = {"layer1.*", "*.qkv"}},
                      .recompute = {"layer1"}},
                     {2, 1, 2},
                     1,
                     PipelineKind::kZbH1},
        PipelineCase{{.name = "moe_zb_v_fp16", .model = moe(), .compute = kFP16},
                     {1, 2, 1, 2},
                     2,
                     PipelineKind::kZbV},
        PipelineCase{{.name = "resnet_recomputed",
                      .model = resnet(),
                      .replicas = 2,
                      .recompute = {"stage*"},
                      .reduce = DType::kBF16},
                     {1, 1, 2}},
        PipelineCase{{.name = "gpt_recomputed", .model = kThreeLayers, .recompute = {"*"}},
                     {1, 1, 2, 1},
                     2,
                     kInterleaved},
        PipelineCase{{.name = "gpt_frozen_fp16_recomputed",
                      .model = kThreeLayers,
                      .micro_batch_size = 3,
                      .freeze = {"embedding.position*", "layer1*"},
                      .compute = kFP16,
                      .recompute = {"layer*"},
                      .reduce = DType::kF16},
                     {2, 1, 2}},
        PipelineCase{.recipe = {"mlp_sharded", mlp()}, .blocks = {2, 2}, .shards = 2},
        PipelineCase{.recipe = {"mlp_sharded_alone", mlp(), 2}, .blocks = {4}, .shards = 3},
        PipelineCase{.recipe = {.name = "resnet_sharded_lars",
                                .model = resnet(),
                                .optimizer = optim::LarsSpec{.weight_decay = 1e-3}},
                     .blocks = {2, 2},
                     .shards = 3},
        PipelineCase{.recipe = {.name = "gpt_tied_sharded_average",
                                .model = kThreeLayers,
                                .replicas = 2,
                                .micro_batch_size = 3,
                                .freeze = {"layer0*"},
                                .average = 0.9},
                     .blocks = {2, 1, 2},
                     .shards = 2},
        PipelineCase{.recipe = {.name = "gpt_tied_frozen_sharded_bf16",
                                .model = kThreeLayers,
                                .freeze = {"embedding.token*"},
                                .compute = kBF16,
                                .reduce = DType::kBF16},
                     .blocks = {1, 1, 2, 1},
                     .chunks = 2,
                     .schedule = kInterleaved,
                     .shards = 2},
        PipelineCase{.recipe = {.name = "moe_zb_v_sharded_lamb_fp16",
                                .model = moe(),
                                .optimizer = optim::LambSpec{},
                                .compute = kFP16},
                     .blocks = {1, 2, 1, 2},
                     .chunks = 2,
                     .schedule = PipelineKind::kZbV,
                     .shards = 2},
        PipelineCase{.recipe = {"resnet_zb_v_first", resnet(), 2},
                     .blocks = {1, 1, 1, 1},
                     .chunks = 2,
                     .schedule = PipelineKind::kZbV,
                     .optimizer_first = true},
        PipelineCase{
            .recipe = {.name = "gpt_zb_h1_fp16_first", .model = kThreeLayers, .compute = kFP16},
            .blocks = {2, 1, 2},
            .schedule = PipelineKind::kZbH1,
            .optimizer_first = true},
        PipelineCase{.recipe = {.name = "mlp_lamb_sharded_first",  // needs the others, and so waits
                                .model = mlp(),
                                .optimizer = optim::LambSpec{}},
                     .blocks = {2, 2},
                     .shards = 2,
                     .optimizer_first = true}),
    [](const auto& which) { return which.param.recipe.name; });

}  // namespace
}  // namespace muster::parallel::cut
