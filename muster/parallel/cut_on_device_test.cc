// Models in parts on several ranks, by blocks, tensors, positions or experts, whose memory the host
// cannot touch come to the same bits as on the host.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "muster/models/testing/foreign_device.h"
#include "muster/parallel/expert/expert_parallel.h"
#include "muster/parallel/pipeline/pipeline.h"
#include "muster/parallel/shared_slices.h"
#include "muster/parallel/testing/cut_training.h"
#include "muster/parallel/testing/state_bytes.h"
#include "muster/parallel/testing/zero_stage.h"

namespace muster::parallel::cut {
namespace {

using layout::Axis;
using layout::PipelineKind;
using models::ContextAttention;

constexpr int kStepsOnDevice = 3;
constexpr std::int64_t kPositionsOnDevice = 8;

struct CutCase {
  Recipe recipe;
  std::int32_t pipeline = 1, shards = 1, experts = 1, context = 1, tensor = 1;
  std::vector<std::int32_t> blocks = {};  // of each stage
  PipelineKind schedule = PipelineKind::k1F1B;
  TogetherOptions together = {};
  int zero_stage = 1;  // where whole models are cut

  std::int32_t ranks() const { return pipeline * shards * experts * context * tensor; }
};
void PrintTo(const CutCase& task, std::ostream* out) { *out << task.recipe.name; }

MeshPlace place_of(const CutCase& task, const comm::Group& group) {
  layout::MeshExtents extents;
  extents[Axis::kPipeline] = task.pipeline;
  extents[Axis::kShard] = task.shards;
  extents[Axis::kExpert] = task.experts;
  extents[Axis::kContext] = task.context;
  extents[Axis::kTensor] = task.tensor;
  return place_in(extents, group).value();
}

PipelineOptions staged_options_of(const CutCase& task) {
  const auto blocks = std::accumulate(task.blocks.begin(), task.blocks.end(), 0);
  const SliceOptions plain = options_of(task.recipe);
  PipelineOptions options;
  options.schedule.kind = task.schedule;
  options.schedule.stages = task.pipeline;
  options.chunks = *layout::partition_by_hand(task.blocks, {blocks, task.pipeline});
  options.passes = {plain.micro_batch_size, plain.seed};
  options.max_grad_norm = plain.max_grad_norm;
  options.compute = plain.compute;
  options.bucket_sizes = plain.bucket_sizes;
  options.together = task.together;
  return options;
}

std::unique_ptr<ModelStrategy> strategy_of(const CutCase& task, const comm::Group& group) {
  const MeshPlace place = place_of(task, group);
  const Recipe& recipe = task.recipe;
  auto model = recomputed_model_of(recipe);
  if (task.pipeline > 1)
    return Pipeline::create(*model, kSeed, optimizer_of(recipe), staged_options_of(task), place,
                            system_clock())
        .value();
  if (task.experts > 1)
    return ExpertParallel::create(std::move(model), optimizer_of(recipe), options_of(recipe), place,
                                  system_clock())
        .value();
  return SharedSlices::create(std::move(model), task.together, optimizer_of(recipe),
                              in_stage(task.zero_stage, options_of(recipe)), place, system_clock())
      .value();
}

// Each rank has a device of its own.
CutCase on_device(CutCase task, const comm::Group& group) {
  task.recipe.device = models::foreign_device(static_cast<c10::DeviceIndex>(to_int(group.rank)));
  return task;
}

std::vector<Outcome> train_all(const CutCase& task, bool there) {
  return train_ranks(task.ranks(), [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const comm::Group group = communicator->group();
    const auto strategy = strategy_of(there ? on_device(task, group) : task, group);
    return train(*strategy, communicator, task.recipe, kStepsOnDevice);
  });
}

class CutOnForeignDevice : public testing::TestWithParam<CutCase> {};

TEST_P(CutOnForeignDevice, SameBits) {
  const std::vector<Outcome> host = train_all(GetParam(), false);
  const std::vector<Outcome> there = train_all(GetParam(), true);
  expect_same_state(there.front(), host.front());
  for (std::size_t rank = 0; rank < host.size(); ++rank) {
    expect_same_figures(there[rank], host[rank]);
    ASSERT_EQ(there[rank].own.size(), host[rank].own.size());
    for (const auto& [name, tensor] : host[rank].own)
      EXPECT_TRUE(same_bits(there[rank].own.at(name), tensor)) << name;
  }
}

// Goes back to the state after the first step, and takes the other one again.
TEST_P(CutOnForeignDevice, TakesOverWhatIsLoaded) {
  on_ranks(GetParam().ranks(), [&](const std::shared_ptr<comm::Communicator>& communicator) {
    const CutCase task = on_device(GetParam(), communicator->group());
    const auto strategy = strategy_of(task, communicator->group());
    const comm::LeafOwners owners = owners_of(*strategy, task.ranks());
    const auto mine = slices_of(owners, strategy->first_of_replica(communicator->group().rank));
    Outcome outcome;
    expect_takes_over(*strategy, communicator, owners, [&](int number) {
      EXPECT_TRUE(make_step(*strategy, task.recipe, mine, number, {}, outcome));
    });
  });
}

models::GptSpec gpt_on_device(bool tied) {
  models::GptSpec spec = gpt(3, tied);
  spec.context = kPositionsOnDevice;
  return spec;
}

models::MoeSpec moe_on_device() {
  return {.body = gpt(2, true), .experts = 8, .balance_loss = 0.1, .z_loss = 0.01};
}

Recipe averaged(std::string name, models::ModelSpec model) {
  return {.name = std::move(name), .model = std::move(model), .average = 0.9};
}

INSTANTIATE_TEST_SUITE_P(
    Of, CutOnForeignDevice,
    testing::Values(
        CutCase{.recipe = averaged("stages", gpt_on_device(true)),
                .pipeline = 3,
                .blocks = {2, 1, 2},
                .schedule = PipelineKind::kZbH1},
        CutCase{.recipe = {.name = "stages_fp16",
                           .model = mlp(),
                           .micro_batch_size = 2,
                           .optimizer = optim::LambSpec{},
                           .freeze = {"layer0*"},
                           .compute = kFP16},
                .pipeline = 2,
                .shards = 2,
                .blocks = {2, 2}},
        CutCase{.recipe = averaged("parts", gpt_on_device(true)), .tensor = 2},
        CutCase{.recipe = {.name = "parts_sequence_bf16",
                           .model = grouped_llama(kPositionsOnDevice),
                           .optimizer = optim::LambSpec{},
                           .compute = kBF16,
                           .recompute = {"layer1"}},
                .shards = 2,
                .tensor = 2,
                .together = {.cuts_sequence = true}},
        CutCase{.recipe = averaged("parts_gradients_in_shards", gpt_on_device(true)),
                .shards = 2,
                .tensor = 2,
                .zero_stage = 2},
        CutCase{.recipe = averaged("parts_ring_weights_in_shards", gpt_on_device(true)),
                .shards = 2,
                .context = 2,
                .tensor = 2,
                .zero_stage = 3},
        CutCase{.recipe = averaged("ring", grouped_llama(kPositionsOnDevice)), .context = 2},
        CutCase{.recipe = averaged("ulysses", grouped_llama(kPositionsOnDevice)),
                .context = 2,
                .together = {.attention = ContextAttention::kUlysses}},
        CutCase{.recipe = averaged("experts", moe_on_device()), .experts = 4},
        CutCase{.recipe = averaged("experts_shards", moe_on_device()), .shards = 2, .experts = 2},
        CutCase{.recipe = averaged("stages_shards_ring_parts", gpt_on_device(true)),
                .pipeline = 2,
                .shards = 2,
                .context = 2,
                .tensor = 2,
                .blocks = {2, 3}}),
    [](const auto& which) { return which.param.recipe.name; });

}  // namespace
}  // namespace muster::parallel::cut
