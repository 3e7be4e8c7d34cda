// Stages whose experts are dealt to ranks: the bits of one rank alone, and where tensors are in
// parts as well those of as many parts without stages, with all experts on each.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"

namespace muster::parallel::cut {
namespace {

using layout::Axis;
using layout::PipelineKind;

constexpr int kStepsOfStages = 6;

struct StagedExperts {
  Recipe recipe;
  std::int32_t holders = 2;               // along `expert`
  std::vector<std::int32_t> blocks = {};  // of each chunk
  std::int32_t chunks = 1;                // of each stage
  PipelineKind schedule = PipelineKind::k1F1B;
  std::int32_t shards = 1, parts = 1;
  bool optimizer_first = false;

  std::int32_t stages() const { return static_cast<std::int32_t>(blocks.size()) / chunks; }
  std::int32_t ranks() const { return stages() * holders * shards * parts * recipe.replicas; }
};
void PrintTo(const StagedExperts& task, std::ostream* out) { *out << task.recipe.name; }
std::string name_of_staged(const testing::TestParamInfo<StagedExperts>& info) {
  return info.param.recipe.name;
}

Result<std::unique_ptr<Pipeline>> make_staged_experts(const StagedExperts& task,
                                                      const comm::Group& group,
                                                      const comm::OpOptions& op = {}) {
  layout::MeshExtents extents = along(Axis::kExpert, task.holders, task.shards);
  extents[Axis::kPipeline] = task.stages();
  extents[Axis::kTensor] = task.parts;
  MUSTER_ASSIGN(const MeshPlace place, place_in(extents, group));
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
  options.optimizer_first = task.optimizer_first;
  options.compute = plain.compute;
  options.bucket_sizes = plain.bucket_sizes;
  options.op = op;
  const auto whole = recomputed_model_of(task.recipe);
  return Pipeline::create(*whole, kSeed, optimizer_of(task.recipe), options, place, system_clock());
}

std::vector<Outcome> train_staged(const StagedExperts& task) {
  return train_ranks(task.ranks(), [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const auto strategy = make_staged_experts(task, communicator->group());
    EXPECT_TRUE(strategy) << (strategy ? "" : strategy.error().message);
    return strategy ? train(**strategy, communicator, task.recipe, kStepsOfStages) : Outcome{};
  });
}

void expect_same_ranks(const std::vector<Outcome>& ranks, const Outcome& wanted) {
  expect_same_state(ranks.front(), wanted);
  for (const Outcome& rank : ranks) {
    expect_same_figures(rank, wanted);
    EXPECT_TRUE(rank.stopped);
    EXPECT_LT(rank.own.size(), wanted.own.size());
    for (const auto& [name, tensor] : rank.own)
      EXPECT_TRUE(same_bits(tensor, wanted.own.at(name))) << name;
  }
}

class PipelineOfDealtExperts : public testing::TestWithParam<StagedExperts> {};

TEST_P(PipelineOfDealtExperts, HasTheBitsOfOneRank) {
  const Outcome plain = train_plain(GetParam().recipe, kStepsOfStages);
  expect_same_ranks(train_staged(GetParam()), plain);
}

models::MoeSpec staged_mixture(std::int64_t per_token = 2,
                               std::optional<double> capacity_factor = {}) {
  models::GptSpec body = gpt(2, true);
  body.context = kContext;
  return {.body = body,
          .experts = 8,
          .experts_per_token = per_token,
          .capacity_factor = capacity_factor,
          .balance_loss = 0.1,
          .z_loss = 0.01};
}

// Its second layer alone has experts.
models::MoeSpec sparse_mixture() {
  models::LlamaSpec body = grouped_llama();
  return {.body = body, .experts = 4, .experts_per_token = 2, .sparse_step = 2};
}

INSTANTIATE_TEST_SUITE_P(
    Of, PipelineOfDealtExperts,
    testing::Values(
        StagedExperts{{.name = "two_stages", .model = staged_mixture()}, 2, {2, 2}},
        StagedExperts{
            {.name = "gpipe_capacity", .model = staged_mixture(1, 1.0), .reduce = DType::kBF16},
            4,
            {2, 2},
            1,
            PipelineKind::kGPipe},
        StagedExperts{{.name = "stages_without_experts_zb_h1", .model = sparse_mixture()},
                      2,
                      {2, 1, 1},
                      1,
                      PipelineKind::kZbH1},
        StagedExperts{{.name = "three_stages_of_six_zb_h1", .model = staged_mixture()},
                      2,
                      {1, 1, 2},
                      1,
                      PipelineKind::kZbH1},
        StagedExperts{
            {.name = "zb_v_recomputed", .model = staged_mixture(), .recompute = {"layer1"}},
            2,
            {1, 1, 1, 1},
            2,
            PipelineKind::kZbV},
        StagedExperts{{.name = "interleaved_frozen_averaged",
                       .model = staged_mixture(),
                       .freeze = {"layer0*", "*experts.3*"},
                       .average = 0.9,
                       .smoothing = 0.2},
                      2,
                      {1, 1, 1, 1},
                      2,
                      PipelineKind::kInterleaved},
        StagedExperts{{.name = "frozen_experts_fp16",
                       .model = staged_mixture(),
                       .freeze = {"*experts.*"},
                       .compute = kFP16},
                      2,
                      {2, 2}},
        StagedExperts{{.name = "replicas_lamb_bf16",
                       .model = staged_mixture(),
                       .replicas = 2,
                       .optimizer = optim::LambSpec{},
                       .compute = kBF16},
                      2,
                      {2, 2}},
        StagedExperts{{.name = "sharded_sgd",
                       .model = sparse_mixture(),
                       .optimizer = optim::SgdSpec{.nesterov = true},
                       .average = 0.9},
                      2,
                      {2, 2},
                      1,
                      PipelineKind::k1F1B,
                      2},
        StagedExperts{{.name = "optimizer_first_fp16", .model = staged_mixture(), .compute = kFP16},
                      2,
                      {2, 2},
                      1,
                      PipelineKind::kZbH1,
                      1,
                      1,
                      true}),
    name_of_staged);

TEST(PipelineOfDealtExpertsInParts, HasTheBitsOfAsManyParts) {
  const StagedExperts task{
      {.name = "parts", .model = staged_mixture()}, 2, {2, 2}, 1, PipelineKind::kZbH1, 1, 2};
  const auto parts =
      train_ranks(task.parts, [&](const std::shared_ptr<comm::Communicator>& communicator) {
        const MeshPlace place =
            place_in(along(Axis::kTensor, task.parts), communicator->group()).value();
        const auto strategy =
            SharedSlices::create(model_of(task.recipe), {}, optimizer_of(task.recipe),
                                 options_of(task.recipe), place, system_clock())
                .value();
        return train(*strategy, communicator, task.recipe, kStepsOfStages);
      });
  expect_same_ranks(train_staged(task), parts.front());
}

TEST(PipelineOfDealtExpert, HoldsItsShareOfTheExpertsOfItsStage) {
  const StagedExperts task{{.name = "moe", .model = staged_mixture()}, 2, {2, 2}};
  const std::int64_t whole = model_of(task.recipe)->parameter_count();
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    const auto made = make_staged_experts(task, {.rank = Rank{rank}, .size = 4}).value();
    EXPECT_EQ(made->parameter_count(), whole);
    EXPECT_FALSE(made->holds_all());
    EXPECT_EQ(made->ranks_per_replica(), 2) << "each with slices of its own";
    EXPECT_EQ(made->first_of_replica(Rank{rank}), Rank{rank % 2});
    EXPECT_EQ(made->part_of(Rank{rank}), rank);
    EXPECT_EQ(made->model().expert_parameters().size(), 4u * 2 * 2)
        << "four experts of one layer with two matrices and their biases";
    for (const models::Parameter& parameter : made->model().expert_parameters())
      EXPECT_EQ(parameter.partition.expert / 4, rank % 2) << parameter.name;
  }
}

void expect_not_staged(const StagedExperts& task, const std::string& why) {
  const auto refused = make_staged_experts(task, {.size = task.ranks()});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().message;
}

TEST(PipelineOfDealtExpert, RefusesWhatItCannotDeal) {
  expect_not_staged({{.name = "gpt", .model = gpt(2, true)}, 2, {2, 2}}, "it has none");
  expect_not_staged({{.name = "three", .model = staged_mixture()}, 3, {2, 2}},
                    "8 experts cannot be dealt evenly to 3 ranks");
  expect_not_staged(
      {{.name = "micro", .model = staged_mixture(), .micro_batch_size = 2}, 2, {2, 2}},
      "micro-batches");
}

// A holder of the last stage is gone: so is the step, on every rank.
TEST(PipelineOfDealtExpert, EndsWhereAHolderDoesNotCome) {
  const StagedExperts task{{.name = "moe", .model = staged_mixture()}, 2, {2, 2}};
  on_ranks(4, [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const bool waits = communicator->group().rank != Rank{3};
    const auto timeout = std::chrono::milliseconds(waits ? 300 : 30000);
    const auto strategy =
        make_staged_experts(task, communicator->group(), {.timeout = timeout, .label = {}}).value();
    const comm::LeafOwners owners = owners_of(*strategy, 4);
    ASSERT_TRUE(strategy->enter(communicator, owners));
    if (!waits) return;
    const auto mine = slices_of(owners, strategy->first_of_replica(communicator->group().rank));
    const Batch batch(40, mine, 3, Batch::Content::kTokens, kContext);
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
