// A pipeline has the bits of plain data parallelism, whatever the stages, replicas and schedule.
#include "muster/parallel/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "muster/base/glob.h"
#include "muster/base/hash.h"
#include "muster/comm/backend/loopback/loopback.h"
#include "muster/models/create.h"
#include "muster/parallel/data_parallel.h"
#include "muster/parallel/testing/toy_batch.h"

namespace muster::parallel {
namespace {

constexpr std::uint64_t kSeed = 5;

struct Recipe {
  std::string name;
  models::ModelSpec model;
  std::vector<std::int32_t> cuts;  // blocks of each chunk
  std::int32_t replicas = 1;
  std::int32_t chunks = 1;  // of each stage
  std::int64_t micro_batch_size = 0;
  layout::PipelineKind schedule = layout::PipelineKind::k1F1B;
  Batch::Content content = Batch::Content::kImages;
  std::vector<std::string> freeze = {};  // patterns
  double average = 0;                    // AverageSpec::decay
  models::Compute compute = {};
  models::AdapterSpec adapters = {};
  std::vector<std::string> recompute = {};  // patterns; in the pipeline only
  DType reduce = DType::kF32;
};
std::string name_of(const testing::TestParamInfo<Recipe>& info) { return info.param.name; }
void PrintTo(const Recipe& recipe, std::ostream* os) { *os << recipe.name; }

auto adamw(const Recipe& recipe) {
  return [average = recipe.average](std::vector<optim::OptimizedParameter> parameters) {
    return optim::create_optimizer(optim::AdamWSpec{.weight_decay = 0.1}, std::move(parameters),
                                   {.decay = average});
  };
}

std::unique_ptr<models::Model> model_of(const Recipe& recipe) {
  auto model = *models::create_model(recipe.model, recipe.adapters);
  model->freeze([&](const models::Parameter& parameter) {
    return matches_any(recipe.freeze, parameter.name);
  });
  return model;
}

struct Outcome {
  std::string model, optimizer;
  double grad_norm = 0, loss = 0, evaluation = 0, average_evaluation = 0;
  std::map<std::string, double> metrics;
  std::optional<std::string> overflow;  // of the second step
};

std::string hash_of(const std::vector<StateSlice>& state) {
  Sha256 hash;
  for (const StateSlice& slice : state) {
    hash.update(std::as_bytes(std::span(slice.name)));
    hash.update(slice.tensor.bytes);
  }
  return to_hex(hash.finish());
}

// In fp16 the second step overflows.
std::optional<double> loss_scale_of(const Recipe& recipe, std::int64_t samples) {
  if (recipe.compute.precision != models::Precision::kF16) return std::nullopt;
  return samples == 33 ? 1e30 : 1024;
}

// Three steps, the last of a short batch with an empty slice, and an evaluation.
Outcome train(ModelStrategy& strategy, const std::shared_ptr<comm::Communicator>& communicator,
              const Recipe& recipe) {
  const Batch::Content content = recipe.content;
  const comm::Group group = communicator->group();
  const std::int32_t width = strategy.ranks_per_replica();
  comm::LeafOwners owners = comm::even_owners(kSlices, group.size / width);
  for (Rank& owner : owners) owner = Rank{to_int(owner) * width};
  const Rank leader{to_int(group.rank) / width * width};
  const auto entered = strategy.enter(communicator, owners);
  EXPECT_TRUE(entered) << (entered ? "" : entered.error().message);
  Outcome outcome;
  for (const std::int64_t samples : {40, 33, 7}) {
    const Batch batch(samples, slices_of(owners, leader), 3, content);
    const auto report = strategy.step({.batch = batch.step,
                                       .step = Step{samples},
                                       .learning_rate = 0.01,
                                       .flags = {},
                                       .before_update = {},
                                       .loss_scale = loss_scale_of(recipe, samples)});
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    if (!report) return outcome;
    if (samples == 33) outcome.overflow = report->overflow;
    outcome.grad_norm = report->grad_norm;
    outcome.loss = report->loss;
    for (const observe::Metric& metric : report->model_metrics)
      outcome.metrics[metric.name] = metric.value;
  }
  const Batch batch(21, slices_of(owners, leader), 4, content);
  std::vector<EvaluationTotals> by_slice(kSlices);
  EXPECT_TRUE(strategy.evaluate(batch.step, by_slice));
  outcome.evaluation = strategy.combine(by_slice)->loss;
  if (recipe.average > 0) {
    std::vector<EvaluationTotals> averaged(kSlices);
    EXPECT_TRUE(strategy.use_average(true));
    EXPECT_TRUE(strategy.evaluate(batch.step, averaged));
    outcome.average_evaluation = strategy.combine(averaged)->loss;
    EXPECT_NE(outcome.average_evaluation, outcome.evaluation);
    EXPECT_TRUE(strategy.use_average(false));
  }
  auto state = strategy.gather_state(Rank{0});
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  if (!state) return outcome;
  outcome.model = hash_of(state->model);
  outcome.optimizer = hash_of(state->optimizer);
  return outcome;
}

BucketSizes bucket_sizes_of(const Recipe& recipe) {
  return {.first_bytes = 1 << 10, .bytes = 1 << 12, .dtype = recipe.reduce};
}

Outcome train_plain(const Recipe& recipe) {
  auto model = model_of(recipe);
  model->initialize(kSeed);
  std::vector<optim::OptimizedParameter> parameters;
  for (const models::Parameter& parameter : model->parameters())
    parameters.push_back({parameter.name, parameter.tensor, parameter.decays});
  DataParallel strategy(std::move(model), *adamw(recipe)(std::move(parameters)),
                        {.virtual_workers = kSlices,
                         .micro_batch_size = recipe.micro_batch_size,
                         .max_grad_norm = 0.5,
                         .compute = recipe.compute,
                         .seed = kSeed,
                         .bucket_sizes = bucket_sizes_of(recipe)},
                        system_clock());
  return train(strategy, comm::create_loopback(1).front(), recipe);
}

std::vector<Outcome> train_pipeline(const Recipe& recipe) {
  const auto stages = static_cast<std::int32_t>(recipe.cuts.size()) / recipe.chunks;
  const std::int32_t size = stages * recipe.replicas;
  const auto communicators = comm::create_loopback(size);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::jthread> ranks;
  for (std::size_t r = 0; r < outcomes.size(); ++r)
    ranks.emplace_back([&, r] {
      const auto whole = model_of(recipe);
      whole->recompute(
          [&](const std::string& block) { return matches_any(recipe.recompute, block); });
      PipelineOptions options;
      options.schedule.kind = recipe.schedule;
      options.schedule.stages = stages;
      options.schedule.chunks_per_stage = recipe.chunks;
      const auto blocks = std::accumulate(recipe.cuts.begin(), recipe.cuts.end(), 0);
      const auto chunks = static_cast<std::int32_t>(recipe.cuts.size());
      options.chunks = *layout::partition_by_hand(recipe.cuts, {blocks, chunks});
      options.passes = {recipe.micro_batch_size, kSeed};
      options.max_grad_norm = 0.5;
      options.compute = recipe.compute;
      options.bucket_sizes = bucket_sizes_of(recipe);
      auto pipeline = Pipeline::create(*whole, kSeed, adamw(recipe), options,
                                       communicators[r]->group(), system_clock());
      ASSERT_TRUE(pipeline) << pipeline.error().message;
      outcomes[r] = train(**pipeline, communicators[r], recipe);
    });
  ranks.clear();
  return outcomes;
}

class PipelineBits : public testing::TestWithParam<Recipe> {};

TEST_P(PipelineBits, AreThoseOfPlainDataParallelism) {
  const Outcome plain = train_plain(GetParam());
  const std::vector<Outcome> ranks = train_pipeline(GetParam());
  EXPECT_EQ(ranks.front().model, plain.model);
  EXPECT_EQ(ranks.front().optimizer, plain.optimizer);
  for (const Outcome& rank : ranks) {
    EXPECT_EQ(rank.grad_norm, plain.grad_norm);
    EXPECT_EQ(rank.loss, plain.loss);
    EXPECT_EQ(rank.evaluation, plain.evaluation);
    EXPECT_EQ(rank.average_evaluation, plain.average_evaluation);
    EXPECT_EQ(rank.metrics, plain.metrics);
    EXPECT_EQ(rank.overflow, plain.overflow);
    EXPECT_EQ(rank.overflow.has_value(), loss_scale_of(GetParam(), 33).has_value());
  }
}

models::ResNetSpec resnet() {
  return {.input_channels = 1, .channels = {8, 16}, .blocks_per_stage = 1, .dropout = 0.2};
}
models::MlpSpec mlp() { return {.inputs = 64, .hidden = {32, 24, 16}, .dropout = 0.1}; }

models::GptSpec gpt(bool tied) {
  return {.vocabulary = 64,
          .context = kContext,
          .width = 16,
          .layers = 3,
          .heads = 2,
          .dropout = 0.1,
          .tied_head = tied};
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
constexpr auto kTokenBatches = Batch::Content::kTokens;
constexpr models::Compute kBF16{.precision = models::Precision::kBF16};
constexpr models::Compute kFP16{.precision = models::Precision::kF16};

INSTANTIATE_TEST_SUITE_P(
    Models, PipelineBits,
    testing::Values(
        Recipe{"mlp_1", mlp(), {4}}, Recipe{"mlp_2", mlp(), {1, 3}},
        Recipe{"mlp_4", mlp(), {1, 1, 1, 1}}, Recipe{"mlp_2x2", mlp(), {2, 2}, 2},
        Recipe{"mlp_2x3", mlp(), {2, 2}, 3},
        Recipe{"mlp_gpipe", mlp(), {2, 1, 1}, 1, 1, 2, PipelineKind::kGPipe},
        Recipe{"resnet_2", resnet(), {2, 2}}, Recipe{"resnet_3", resnet(), {1, 1, 2}},
        Recipe{"resnet_chunks", resnet(), {1, 1, 1, 1}, 1, 2, 0, kInterleaved},
        Recipe{"gpt_2", gpt(false), {2, 3}, 1, 1, 0, PipelineKind::k1F1B, kTokenBatches},
        Recipe{"gpt_tied", gpt(true), {2, 1, 2}, 2, 1, 3, PipelineKind::k1F1B, kTokenBatches},
        Recipe{"gpt_tied_chunks", gpt(true), {1, 1, 2, 1}, 1, 2, 0, kInterleaved, kTokenBatches},
        Recipe{"gpt_tied_alone", gpt(true), {2, 3}, 1, 2, 0, kInterleaved, kTokenBatches},
        Recipe{.name = "mlp_frozen",
               .model = mlp(),
               .cuts = {1, 2, 1},
               .replicas = 2,
               .freeze = {"layer0*", "layer2.linear.bias"}},
        Recipe{.name = "gpt_tied_frozen",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .content = kTokenBatches,
               .freeze = {"embedding.token*", "layer0*"}},
        Recipe{.name = "gpt_tied_average",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .replicas = 2,
               .content = kTokenBatches,
               .average = 0.9},
        Recipe{.name = "mlp_fp16", .model = mlp(), .cuts = {2, 2}, .replicas = 2, .compute = kFP16},
        Recipe{.name = "resnet_bf16", .model = resnet(), .cuts = {1, 1, 2}, .compute = kBF16},
        Recipe{.name = "gpt_bf16",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .micro_batch_size = 3,
               .content = kTokenBatches,
               .compute = kBF16},
        Recipe{.name = "gpt_fp16",
               .model = gpt(true),
               .cuts = {2, 3},
               .replicas = 2,
               .content = kTokenBatches,
               .compute = kFP16},
        Recipe{"moe", moe(), {2, 2, 2}, 2, 1, 3, PipelineKind::k1F1B, kTokenBatches},
        Recipe{"moe_chunks", moe(), {1, 2, 1, 2}, 1, 2, 0, kInterleaved, kTokenBatches},
        Recipe{.name = "moe_fp16",
               .model = moe(),
               .cuts = {3, 3},
               .content = kTokenBatches,
               .compute = kFP16,
               .recompute = {"*"}},
        Recipe{.name = "gpt_adapters",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .replicas = 2,
               .content = kTokenBatches,
               .adapters = {.rank = 2, .dropout = 0.2, .target_modules = {"layer1.*", "*.qkv"}},
               .recompute = {"layer1"}},
        Recipe{"mlp_zb_h1", mlp(), {2, 1, 1}, 1, 1, 2, PipelineKind::kZbH1},
        Recipe{"resnet_zb_h1", resnet(), {2, 2}, 2, 1, 0, PipelineKind::kZbH1},
        Recipe{"resnet_zb_v", resnet(), {1, 1, 1, 1}, 1, 2, 0, PipelineKind::kZbV},
        Recipe{"gpt_zb_h1", gpt(true), {2, 1, 2}, 2, 1, 3, PipelineKind::kZbH1, kTokenBatches},
        Recipe{"gpt_zb_v", gpt(true), {1, 1, 2, 1}, 2, 2, 0, PipelineKind::kZbV, kTokenBatches},
        Recipe{.name = "gpt_zb_h1_adapters",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .schedule = PipelineKind::kZbH1,
               .content = kTokenBatches,
               .freeze = {"embedding.token*"},
               .adapters = {.rank = 2, .target_modules = {"layer1.*", "*.qkv"}},
               .recompute = {"layer1"}},
        Recipe{.name = "moe_zb_v_fp16",
               .model = moe(),
               .cuts = {1, 2, 1, 2},
               .chunks = 2,
               .schedule = PipelineKind::kZbV,
               .content = kTokenBatches,
               .compute = kFP16},
        Recipe{.name = "resnet_recomputed",
               .model = resnet(),
               .cuts = {1, 1, 2},
               .replicas = 2,
               .recompute = {"stage*"},
               .reduce = DType::kBF16},
        Recipe{.name = "gpt_recomputed",
               .model = gpt(true),
               .cuts = {1, 1, 2, 1},
               .chunks = 2,
               .schedule = kInterleaved,
               .content = kTokenBatches,
               .recompute = {"*"}},
        Recipe{.name = "gpt_frozen_fp16_recomputed",
               .model = gpt(true),
               .cuts = {2, 1, 2},
               .micro_batch_size = 3,
               .content = kTokenBatches,
               .freeze = {"embedding.position*", "layer1*"},
               .compute = kFP16,
               .recompute = {"layer*"},
               .reduce = DType::kF16}),
    name_of);

}  // namespace
}  // namespace muster::parallel
